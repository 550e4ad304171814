// The subjects with the most denials, by kind.
import { actions } from "../acts.js";
import { bar } from "../chart.js";
import { columns, empty, fill, h, heading, listing, refill, say } from "../dom.js";
import { lately, moment, number, policyNames, time } from "../words.js";
import { subjectLink } from "./violations.js";

const KINDS = [
  ["ip", "Addresses"], ["user", "Users"], ["apikey", "API keys"], ["session", "Sessions"],
  ["internal", "Services"], ["envoy", "Envoy"], ["other", "Others"], ["policy", "Policies and tiers"],
];
const COLUMNS = columns("# | figure", "Subject | subject", "Requests now | figure", "Denied now | figure", "Denials | figure",
  "Policies", "First denied | time", "Last denied | time", "Actions");
const POLICIES = columns("# | figure", "Policy or tier | subject", "Denials | figure", "Compared with the first | wide");

/** denials formats the number of denials, as a range if it is not exact. */
export const denials = (o) => (o.at_least < o.denied ? `${o.at_least.toLocaleString("en")} to ${o.denied.toLocaleString("en")}` : o.denied.toLocaleString("en"));

/** compared draws the denials of an offender relative to those of the first one in the list. */
export function compared(o, { denied: first }) {
  const most = first || 1;
  return bar(document, { share: o.denied / most, sure: o.at_least / most, kind: "denied", label: `${Math.round((100 * o.denied) / most)}%` });
}

export function offenders(app) {
  let kind = "ip";
  let chosen = false; // whether the user chose the kind
  const tabs = KINDS.map(([name, label]) => h("button", {
    type: "button", role: "tab", id: `tab-${name}`, "aria-controls": "offenders", on: { click: () => choose(name) },
  }, label));
  const list = h("div", { role: "tablist", "aria-label": "Kinds of subjects", class: "tabs", on: { keydown: arrow } }, tabs);
  const panel = h("div", { role: "tabpanel", id: "offenders", tabindex: "0" });
  const when = h("span");
  const node = h("section", { class: "offenders" },
    heading("Offenders", "Subjects with the most denials ", when, ". “Now” is the last ten seconds. With many subjects, counts are ranges, such as 90 to 95."),
    list, panel);

  function choose(name) {
    kind = name;
    chosen = true;
    update();
  }
  function arrow(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const at = KINDS.findIndex(([name]) => name === kind);
    const next = (at + step + KINDS.length) % KINDS.length;
    choose(KINDS[next][0]);
    tabs[next].focus();
  }
  function update() {
    const top = app.model.state.top ?? {};
    say(when, lately(app.model));
    if (!chosen && !(top[kind]?.length > 0)) kind = KINDS.find(([name]) => top[name]?.length > 0)?.[0] ?? "ip";
    KINDS.forEach(([name, label], i) => {
      tabs[i].setAttribute("aria-selected", name === kind);
      tabs[i].tabIndex = name === kind ? 0 : -1;
      fill(tabs[i], label, h("span", { class: "number" }, String(top[name]?.length ?? 0)));
    });
    panel.setAttribute("aria-labelledby", `tab-${kind}`);
    const found = top[kind] ?? [];
    if (found.length === 0) {
      fill(panel, empty("No denials of this kind in the last few minutes."));
      return;
    }
    const heads = kind === "policy" ? POLICIES : COLUMNS;
    const cells = (o) => (kind === "policy" ? [policyLink(o.subject), denials(o), compared(o, found[0])] : subjectCells(o));
    refill(panel, listing("Offenders, worst first", heads, found.map((o, i) => [String(i + 1), ...cells(o)])));
  }
  function subjectCells(o) {
    const at = (text) => (time(text) ? moment(time(text)) : "–");
    return [
      subjectLink(o), o.rate > 0 ? number(o.rate, "/s") : "none", o.rate > 0 ? number(o.share, "share") : "–", denials(o),
      policyNames(o.policies ?? [o.policy]), at(o.first), at(o.last), actions(app, o),
    ];
  }
  /**
   * policyLink links to the violations of a policy, or of a tier if the name is like "tier free".
   */
  function policyLink(name) {
    const tier = (app.model.state.config?.tiers ?? []).find((t) => `tier ${t.name}` === name)?.name;
    const filter = () => Object.assign(app.filter, { text: "", reason: "", tier: tier ?? "", policy: tier ? "" : name });
    return h("a", { class: "subject", href: "#/violations", on: { click: filter } }, name);
  }
  return { node, update, slow: true };
}
