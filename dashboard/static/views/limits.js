// Tiers and policies, and the files that they come from.
import { columns, empty, fill, h, heading, listing, refill, row, table } from "../dom.js";
import { ago, number, share, time } from "../words.js";

const SOURCES = columns("Source", "File | code", "State", "Checked", "Changes | figure", "Invalid | figure");
const LIMITS = columns("Name", "Limits | code", "If the store fails", "Decisions (15 min) | figure", "Denied | figure");

export function limits(app) {
  const panel = h("div");
  const node = h("section", { class: "limits" },
    heading("Limits", "The limits in force. To change them, edit the configuration file, which is reloaded automatically."), panel);

  function update() {
    const config = app.model.state.config ?? {};
    refill(panel,
      section("Configuration", sources(config.sources ?? [])),
      section("Tiers", "The first tier that matches a request applies.",
        named(config.tiers ?? [], "tier", "No tiers are configured: only policies apply.")),
      section("Policies", "Every policy that matches a request applies, in addition to the tier. Each decision is counted once: under the policy that denied it, or else under the route of the request.",
        named(config.policies ?? [], "policy", "No policies are configured: only tiers apply.")));
  }
  function sources(list) {
    if (list.length === 0) return empty("The configuration is built into the program.");
    const { node: view, body } = table("Sources of the configuration", SOURCES);
    fill(body, list.flatMap((s) => [
      row(SOURCES, [
        s.name, s.path || "–", s.error ? h("span", { class: "status bad" }, "■ invalid") : h("span", { class: "status good" }, "● in force"),
        time(s.looked_at) ? ago(time(s.looked_at)) : "–", String(s.changes ?? 0), String(s.refused ?? 0),
      ]),
      s.error ? h("tr", { class: "wrong" }, h("td", { colspan: SOURCES.length }, h("pre", {}, s.error), "The last valid configuration stays in force.")) : null,
    ]).filter(Boolean));
    return view;
  }
  function named(list, field, none) {
    if (list.length === 0) return empty(none);
    return listing(`Limits by ${field}`, LIMITS, list.map((p) => {
      const steps = app.model.steps((s) => s[field] === p.name);
      const denied = steps.reduce((sum, s) => sum + s.denied, 0);
      const decisions = steps.reduce((sum, s) => sum + s.allowed, denied);
      return [
        h("span", {}, p.name, p.shadow ? h("a", { class: "reason shadow", href: "#/shadow" }, "shadow") : null),
        p.limits?.length > 0 ? h("ul", { class: "plain" }, p.limits.map((l) => h("li", {}, l))) : "none of its own",
        p.failure || "as in the tier", number(decisions), number(share(denied, decisions), "share"),
      ];
    }));
  }
  return { node, update, slow: true };
}

const section = (title, ...rest) => h("section", {}, h("h2", {}, title), rest.map((r) => (typeof r === "string" ? h("p", { class: "quiet" }, r) : r)));
