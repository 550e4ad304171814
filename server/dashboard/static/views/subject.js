// One subject: every limit of it with its window on a time line, its ban, and what an operator can do.
import { ban, forget, lift } from "../acts.js";
import { empty, fill, h, heading, refill, say } from "../dom.js";
import { limitCard } from "../limitcard.js";
import { clock, count, time, until } from "../words.js";

const EVERY = 3000;
const HINT = "Type a subject as it is in the logs: its kind, a colon, and its name. Or click one in the violations or among the offenders.";

export function subject(app) {
  const input = h("input", {
    type: "search", name: "subject", placeholder: "user:42, ip:203.0.113.7, apikey:…  /", "aria-label": "Subject",
    autocomplete: "off", spellcheck: "false", required: true,
  });
  const form = h("form", { class: "filters", role: "search", on: { submit: search } },
    input, h("button", { type: "submit", class: "primary" }, "Show"));
  const status = h("p", { class: "counts", role: "status" });
  const name = h("h2", { class: "code" });
  const actions = h("div", { class: "actions" });
  const banned = h("div", { class: "ban" });
  const cards = h("div", { class: "cards" });
  const found = h("div", { hidden: true }, h("div", { class: "who" }, name, actions, banned), cards);
  const none = empty(HINT);
  const node = h("section", { class: "subject" },
    heading("Subject", "What one caller has used of every limit, and when room comes back."), form, status, none, found);
  const unfolded = new Set();
  let query = null;
  let timer = 0;
  let asked = 0;

  function search(event) {
    event.preventDefault();
    app.go("subject", "name", input.value.trim());
  }
  function show(by, value) {
    clearTimeout(timer);
    if (!by) return;
    if (by === "name") input.value = value;
    const next = by === "ref" ? `ref=${encodeURIComponent(value)}` : `subject=${encodeURIComponent(value)}`;
    if (next !== query) {
      query = next;
      unfolded.clear();
      nothing("Looking…");
    }
    look(by === "ref" ? value : "");
  }
  async function look(ref) {
    clearTimeout(timer);
    timer = setTimeout(() => look(ref), EVERY);
    if (document.hidden || app.paused) return;
    const mine = ++asked;
    try {
      const answer = await app.api.get(`api/subject?${query}`);
      if (mine === asked) render({ ...answer, ref });
    } catch (error) {
      if (mine === asked) nothing(`${error.status === 404 ? "Nothing is known of this subject" : "It cannot be shown"}: ${error.message}`);
    }
  }
  function nothing(text) {
    say(status, "");
    say(none, text);
    none.hidden = false;
    found.hidden = true;
  }
  function render(s) {
    const now = time(s.now) ?? Date.now();
    const limits = s.limits ?? [];
    none.hidden = true;
    found.hidden = false;
    say(status, `${count(limits.length, "limit")}${s.left_out > 0 ? ` and ${s.left_out} that are not shown` : ""}, as of ${clock(now)}`);
    say(name, s.subject);
    buttons(s);
    fill(banned, banText(s.ban ?? {}, now),
      app.model.state.writable ? null : h("p", { class: "quiet" }, "Nothing can be changed here: the server has no tokens. Start it with --admin-token-file."));
    refill(cards, limits.length > 0
      ? limits.map((limit) => limitCard(limit, now, cardWidth(), unfolded))
      : empty("No limit of the configuration counts this subject. Check its kind: tiers and policies say by what they count."));
  }
  /** buttons stay where they are while somebody is about to press one. */
  function buttons(s) {
    const lifts = time(s.ban?.until) !== null;
    const key = JSON.stringify([s.subject, s.ref, lifts, app.model.state.writable]);
    if (actions.dataset.key === key) return;
    actions.dataset.key = key;
    const button = (label, call, kind) => h("button", {
      type: "button", "data-act": label.toLowerCase(), class: kind, disabled: !app.model.state.writable,
      on: { click: async () => (await call(app, s)) && look(s.ref) },
    }, label);
    fill(actions, button("Reset", forget), button("Ban", ban), lifts ? button("Unban", lift, "primary") : null);
  }
  /** cardWidth is the room in one of as many columns as there are; parts.css has the same numbers. */
  function cardWidth() {
    const wide = cards.clientWidth || 400;
    const across = Math.max(1, Math.floor((wide + 14) / (400 + 14)));
    return Math.floor((wide - 14 * (across - 1)) / across) - 30;
  }
  return { node, show, hide: () => clearTimeout(timer), focus: () => input.focus() };
}

function banText({ until: end, level, strikes }, now) {
  const ends = time(end);
  const ban = ends ? `■ Banned until ${clock(ends)} (${until(ends, now)}), ban ${level} in a row.` : "Not banned.";
  const next = strikes > 0 ? ` ${count(strikes, "denial")} ${strikes === 1 ? "counts" : "count"} towards the next ban.` : "";
  return h("p", { class: ends ? "banned" : "quiet" }, ban, next);
}
