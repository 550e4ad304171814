// One subject: its limits, each with a timeline of its window, its ban, and the operator actions.
import { ban, forget, lift, matched, raisable, raise, unset } from "../acts.js";
import { watching } from "../attention.js";
import { columns, empty, fill, h, heading, listing, refill, say } from "../dom.js";
import { full, limitCard, whose } from "../limitcard.js";
import { clock, count, lately, moment, number, policyNames, sentence, time, until } from "../words.js";
import { denials } from "./offenders.js";
import { cells } from "./violations.js";

const EVERY = 3000;
const RECENT = 5; // number of denials listed
const DENIALS = columns("Time | time", "Tier / policy", "Limit | code", "Reason", "Retry in | figure");
const OVERRIDES = columns("Policy", "Limits | code", "Ends | time", "By", "Reason", "");
const REF = "ref:"; // the prefix of refs on the command line
const HINT = "Enter a subject as kind:name, for example user:42, or select one in Violations or Offenders.";

export function subject(app) {
  const input = h("input", {
    type: "search", name: "subject", placeholder: "user:42, ip:203.0.113.7, apikey:…  /", "aria-label": "Subject",
    autocomplete: "off", spellcheck: "false", required: true,
  });
  const form = h("form", { class: "filters", role: "search", on: { submit: search } },
    input, h("button", { type: "submit", class: "primary" }, "Show"));
  const status = h("p", { class: "counts", role: "status" });
  const name = h("h2", { class: "code" });
  const actions = h("div", { class: "actions", tabindex: "-1" });
  const note = h("p", { class: "quiet note" });
  const banned = h("div", { class: "ban" });
  const denied = h("section", { class: "denials", "aria-label": "Denials" });
  const overridden = h("section", { class: "overrides", "aria-label": "Overrides", hidden: true });
  const tier = h("select", { on: { change: () => { chosen = tier.value; render(known); } } });
  const tiers = h("p", { class: "tiers", hidden: true }, h("label", {}, "Tier ", tier), " ", h("span", { class: "quiet" }));
  const cards = h("div", { class: "cards" });
  const idle = h("details", { class: "idle" }, h("summary"), h("ul"));
  const found = h("div", { hidden: true }, h("div", { class: "who" }, name, actions, note, banned), overridden, denied, tiers, cards, idle);
  const none = empty(HINT);
  const node = h("section", { class: "subject" },
    heading("Subject", "The usage of each limit by one subject, and when the limit resets."), form, status, none, found);
  const unfolded = new Set();
  let wanted = null; // {subject} or {ref}, as in the address
  let known = null; // the last answer
  let chosen = null; // the selected tier, or null
  let writable; // state.writable at the time when known was drawn
  const watch = watching(app, EVERY, look);
  let asked = 0;

  function search(event) {
    event.preventDefault();
    const text = input.value.trim();
    if (text.startsWith(REF)) app.go("subject", "ref", text.slice(REF.length));
    else app.go("subject", "name", text);
  }
  function show(...address) {
    const next = named(address);
    if (next && JSON.stringify(next) !== JSON.stringify(wanted)) {
      wanted = next;
      chosen = null;
      unfolded.clear();
      idle.open = false;
      nothing("Loading…");
    }
    if (next?.subject) input.value = next.subject;
    if (wanted) watch.now();
  }
  async function look() {
    const mine = ++asked;
    try {
      const answer = await app.api.get(`api/subject?${new URLSearchParams(wanted)}`);
      if (mine !== asked) return;
      if (app.api.shortNames) hideName(answer.ref);
      render({ ...answer, ref: wanted.ref, own: answer.ref ?? wanted.ref });
    } catch (error) {
      if (mine !== asked) return;
      if (known && error.status === 503) say(status, `As of ${clock(time(known.now) ?? 0)}. ${sentence(error.message)}`);
      else nothing(`${error.status === 404 ? "Nothing is known about this subject" : "Cannot load the subject"}: ${error.message}`);
    }
  }
  /** hideName replaces a name in the address and in the search field with its ref. */
  function hideName(ref) {
    if (wanted.ref) return;
    wanted = { ref };
    input.value = "";
    history.replaceState(null, "", `#/subject/ref/${encodeURIComponent(ref)}`);
  }
  function nothing(text) {
    known = null;
    say(status, "");
    say(none, sentence(text));
    none.hidden = false;
    found.hidden = true;
  }
  function render(s) {
    known = s;
    writable = app.model.state.writable;
    const now = time(s.now) ?? Date.now();
    none.hidden = true;
    found.hidden = false;
    say(name, s.subject);
    say(note, s.note ? `${s.note}.` : "");
    note.hidden = !s.note;
    buttons(s);
    fill(banned, banText(s.ban ?? {}, s.denials, now),
      writable !== false ? null : h("p", { class: "quiet" }, unwritable(app.model.state)));
    showOverrides(s, now);
    showDenials(s);
    const limits = ofTier(s);
    const used = limits.filter((l) => !unused(l)).sort((a, b) => full(b) - full(a));
    const rest = limits.filter(unused);
    say(status, `${count(limits.length, "limit")}${s.left_out > 0 ? ` and ${s.left_out} not shown` : ""}, as of ${clock(now)}`);
    refill(cards, used.length > 0
      ? used.map((limit) => limitCard(limit, now, cardWidth(), unfolded))
      : empty(limits.length > 0 ? "No usage of any limit."
        : "No limit in the configuration applies to this subject. Check its kind."));
    idle.hidden = rest.length === 0;
    const [summary, list] = idle.children;
    say(summary, `${count(rest.length, "unused limit")}`);
    fill(list, rest.map((l) => h("li", {}, h("span", { class: "code" }, l.limit), " ", h("span", { class: "quiet" }, whose(l)))));
  }
  /**
   * update redraws the subject if writable has changed since it was drawn, because the subject may
   * arrive before the state. Otherwise update redraws only the denials.
   */
  function update() {
    if (!known) return;
    if (app.model.state.writable !== writable) render(known);
    else showDenials(known);
  }
  /** showDenials shows how much of the subject's traffic is denied, and lists its last denials. */
  function showDenials(s) {
    const list = app.model.violations.filter((v) => isOf(v, s)).slice(-RECENT).reverse();
    denied.hidden = !s.denials && list.length === 0;
    refill(denied, h("h3", {}, "Denials"), s.denials ? facts(s.denials, app.model) : null, list.length > 0
      ? listing("Last denials, newest first", DENIALS, list.map((v) => cells(v).filter((_, i) => i !== 1))) : null);
  }
  /** showOverrides lists the limits that an operator has given to the subject. */
  function showOverrides(s, now) {
    const list = s.overrides ?? [];
    overridden.hidden = list.length === 0;
    const given = listing("Overrides of the configuration", OVERRIDES, list.map((o) => [
      o.policy, o.limits.join(", ") + (o.lower ? ", or lower" : ""), time(o.until) ? `${moment(time(o.until), now)} (${until(time(o.until), now)})` : "never",
      o.by ?? "", o.why ?? "",
      h("button", { type: "button", "aria-label": `Remove the override of ${o.policy}`, disabled: !writable, on: { click: async () => (await unset(app, s, o)) && watch.now() } }, "Remove"),
    ]));
    refill(overridden, list.length > 0 ? [h("h3", {}, "Overrides"), given] : null);
  }
  /**
   * ofTier returns the limits of the selected tier. If no tier is selected, it selects the tier of
   * the subject's last denial.
   */
  function ofTier(s) {
    const all = s.limits ?? [];
    const names = [...new Set(all.map((l) => l.tier).filter(Boolean))];
    const last = app.model.violations.findLast((v) => v.reason !== "shadow" && isOf(v, s))?.tier;
    const denied = names.includes(last) ? last : "";
    tiers.hidden = names.length < 2;
    if (tier.dataset.names !== JSON.stringify(names)) {
      tier.dataset.names = JSON.stringify(names);
      fill(tier, h("option", { value: "" }, "all"), names.map((n) => h("option", { value: n }, n)));
    }
    chosen ??= denied || null; // the selection stays when later denials are in other tiers
    tier.value = chosen ?? "";
    say(tiers.lastChild, `The tier of a caller depends on the request.${denied ? ` The last denial was in tier ${denied}.` : ""}`);
    return all.filter((l) => !tier.value || !l.tier || l.tier === tier.value);
  }
  /**
   * buttons redraws the buttons only if they have changed, and not while one is pressed, so that
   * they do not move.
   */
  function buttons(s) {
    const lifts = time(s.ban?.until) !== null;
    const raises = raisable(s).length > 0;
    const key = JSON.stringify([s.subject, s.ref, lifts, raises, writable]);
    if (actions.dataset.key === key) return;
    const button = (label, call, kind) => h("button", {
      type: "button", "data-act": label.toLowerCase(), class: kind, disabled: !writable,
      on: { click: async () => (await call(app, known ?? s)) && watch.now() },
    }, label);
    if (refill(actions, button("Reset", forget), button("Ban", ban), raises ? button("Raise", raise) : null, lifts ? button("Unban", lift, "primary") : null)) actions.dataset.key = key;
  }
  /**
   * cardWidth returns the inner width of a card. The cards fill the view in as many columns as fit.
   * The same numbers are in parts.css.
   */
  function cardWidth() {
    const wide = cards.clientWidth || 400;
    const across = Math.max(1, Math.floor((wide + 14) / (400 + 14)));
    return Math.floor((wide - 14 * (across - 1)) / across) - 30;
  }
  return { node, show, update, hide: watch.stop, focus: () => input.focus() };
}

/**
 * named parses an address: ref/…, name/…, or a subject as typed, which may contain slashes. It
 * returns null for an empty address.
 */
function named([by = "", ...rest]) {
  const text = (by === "ref" || by === "name" ? rest : [by, ...rest]).join("/");
  if (text === "") return null;
  if (by !== "ref" && text.startsWith(REF)) return { ref: text.slice(REF.length) };
  return by === "ref" ? { ref: text } : { subject: text };
}

const isOf = (v, s) => v.subject === s.subject || Boolean(v.ref) && v.ref === s.own;

const unwritable = ({ who }) => (who
  ? `The token of ${who} has the role read. Changes require one with the role operate.`
  : "Changes are disabled: the server has no tokens. Start it without --no-admin-token.");

const unused = (limit) => limit.used === 0 && !limit.divided && limit.capacity > 0 && !(limit.entries?.length > 0);

function facts(o, model) {
  const now = o.rate > 0 ? `${number(o.rate, "/s")} in the last 10 s, ${number(o.share, "share")} denied` : "none in the last 10 s";
  return h("dl", { class: "facts" }, [
    ["Requests", now], ["Denials", `${denials(o)} ${lately(model)}`], ["Policies", policyNames(o.policies ?? []) || "none (denied by its ban only)"],
    ["First denied", moment(time(o.first) ?? 0)], ["Last denied", moment(time(o.last) ?? 0)],
  ].flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

function banText({ until: end, level, strikes }, denials, now) {
  const ends = time(end);
  const ban = ends ? `■ Banned until ${clock(ends)} (${until(ends, now)}), ${level > 0 ? `ban ${level} in a row` : "by an operator"}. ${matched(denials?.banned)}` : "Not banned.";
  const next = strikes > 0 ? ` ${count(strikes, "denial")} ${strikes === 1 ? "counts" : "count"} toward the next ban.` : "";
  return h("p", { class: ends ? "banned" : "quiet" }, ban, next);
}
