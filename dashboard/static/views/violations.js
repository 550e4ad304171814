// The live feed of violations.
import { columns, empty, fill, h, heading, refill, row, say, table } from "../dom.js";
import { clock, count, tierAndPolicy, retry, time } from "../words.js";

const ROWS = 200;
const COLUMNS = columns("Time | time", "Subject | subject", "Tier / policy", "Limit | code", "Reason", "Retry in | figure");
const GROUPS = columns("Last | time", "Subject | subject", "Denials | figure", "Tier / policy", "Limit | code", "Reason", "Retry in | figure");
const REASONS = ["limit", "ban", "unavailable", "shadow"];

export function violations(app) {
  const { filter, model } = app;
  const text = h("input", {
    type: "search", placeholder: "Filter by any word  /", "aria-label": "Filter the violations",
    on: { input: () => change("text", text.value) },
  });
  const tier = picker("Tier", "tier");
  const policy = picker("Policy", "policy");
  const reason = picker("Reason", "reason");
  const counts = h("p", { class: "counts", role: "status" });
  const { node: list, body } = table("Violations, newest first", COLUMNS);
  const { node: groups, body: groupBody } = table("Violations by subject, newest first", GROUPS);
  const group = h("input", { type: "checkbox", checked: true, on: { change: update } });
  const nothing = empty("No violations yet. Requests that are over a limit or banned appear here within a second.");
  const clear = h("button", { type: "button", on: { click: reset } }, "Clear filters");
  const node = h("section", { class: "violations" },
    heading("Violations", "Requests that were denied, or that shadow rules would have denied, as they happen."),
    h("div", { class: "filters" }, text, tier.label, policy.label, reason.label,
      h("label", { class: "check" }, group, " Group by subject"), clear), counts, nothing, groups, list);
  let seen = 0; // the serial number of the newest violation when the table was last updated
  let shown = ""; // identifies the data and the filter that the table shows

  function picker(name, field) {
    const select = h("select", { on: { change: () => change(field, select.value) } });
    return { select, label: h("label", {}, `${name} `, select) };
  }
  function change(field, value) {
    filter[field] = value;
    update();
  }
  function reset() {
    Object.assign(filter, { text: "", tier: "", policy: "", reason: "" });
    update();
    text.focus();
  }
  function options({ select }, names, field) {
    const all = ["", ...names, ...(filter[field] && !names.includes(filter[field]) ? [filter[field]] : [])];
    if (select.dataset.names !== JSON.stringify(all)) {
      select.dataset.names = JSON.stringify(all);
      fill(select, all.map((name) => h("option", { value: name }, name || "all")));
    }
    select.value = filter[field];
  }
  function update() {
    if (text.value !== filter.text) text.value = filter.text;
    options(tier, model.names("tier"), "tier");
    options(policy, model.names("policy"), "policy");
    options(reason, REASONS, "reason");
    const fits = model.violations.filter((v) => matches(v, filter));
    const rows = group.checked ? groupRows(fits) : eachRow(fits);
    nothing.hidden = fits.length > 0;
    groups.hidden = fits.length === 0 || !group.checked;
    list.hidden = fits.length === 0 || group.checked;
    if (model.violations.length > 0) say(nothing, "No violations match the filter.");
    clear.hidden = Object.values(filter).every((f) => f === "");
    const [self, ...others] = model.processes;
    say(counts, [
      others.length > 0 ? `only from ${self.name}: the other ${others.length === 1 ? "process lists its" : `${others.length} processes list their`} own` : "",
      `${count(rows.violations, "violation")} ${rows.subjects ? `of ${count(rows.subjects, "subject")} ` : ""}shown`,
      fits.length > rows.violations ? `${count(fits.length - rows.violations, "older one")} not shown` : "",
      model.unshown > 0 ? `${model.unshown.toLocaleString("en")} more were counted but not listed` : "",
      model.gap ? `violations between ${clock(model.gap.from)} and ${clock(model.gap.to)} are missing: this page was not connected` : "",
    ].filter(Boolean).join(" · "));
  }
  /** eachRow adds rows for new violations. */
  function eachRow(fits) {
    fill(groupBody);
    if (shown !== JSON.stringify([model.loads, filter])) {
      shown = JSON.stringify([model.loads, filter]);
      seen = 0;
      fill(body);
    }
    body.prepend(...fits.filter((v) => v.serial > seen).slice(-ROWS).reverse().map(violationRow));
    while (body.rows.length > ROWS) body.deleteRow(-1);
    seen = model.newest;
    return { violations: body.rows.length };
  }
  /** groupRows creates a row for each subject, so that one subject does not hide all others. */
  function groupRows(fits) {
    fill(body);
    shown = "";
    const all = grouped(fits, (v) => [v.ref || v.subject, isShadow(v)]).slice(0, ROWS); // allowed requests have their own groups
    refill(groupBody, all.map(groupRow));
    return { violations: all.reduce((sum, list) => sum + list.length, 0), subjects: all.length };
  }
  return { node, update, focus: () => text.focus() };
}

/**
 * grouped groups violations by the values that the function key returns for them. The groups, and
 * the violations in each group, are newest first.
 */
export const grouped = (violations, key) => [...Map.groupBy(violations.toReversed(), (v) => JSON.stringify(key(v))).values()];

function groupRow(list) {
  const [v] = list;
  const [at, subject, , ...rest] = cells(v);
  const policies = [...new Set(list.map((one) => tierAndPolicy(one.tier, one.policy)))].join(", ");
  return row(GROUPS, [at, subject, list.length.toLocaleString("en"), policies, ...rest], look(v));
}

/**
 * isShadow reports whether a request was allowed but would have been denied if a shadow rule were
 * enforced.
 */
export const isShadow = (v) => v.reason === "shadow";

/** look returns attributes that distinguish allowed requests from denied ones. */
const look = (v) => (isShadow(v) ? { class: "would" } : {});

/**
 * matches reports whether a violation matches a filter: it has the tier, policy and reason of the
 * filter, and the text shown for it contains every word of the filter.
 */
function matches(v, filter) {
  if (filter.tier && v.tier !== filter.tier) return false;
  if (filter.policy && v.policy !== filter.policy) return false;
  if (filter.reason && v.reason !== filter.reason) return false;
  const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
  const all = [v.subject, v.tier, v.policy, v.limit, v.reason, v.degraded ? "degraded" : "", v.ref ? `ref:${v.ref}` : ""].join(" ").toLowerCase();
  return words.every((word) => all.includes(word));
}

const violationRow = (v) => row(COLUMNS, cells(v), { "data-serial": v.serial, ...look(v) });

/** cells returns the cells of a row, in the order of COLUMNS. */
export function cells(v) {
  return [
    clock(time(v.at) ?? 0), subjectLink(v), tierAndPolicy(v.tier, v.policy), v.limit || "–",
    h("span", { class: `reason ${v.reason}` }, isShadow(v) ? "shadow: not denied" : v.reason, v.degraded ? h("span", { class: "reason degraded" }, "degraded") : null),
    isShadow(v) ? "allowed" : retry(v.retry_after_seconds),
  ];
}

/** subjectLink links to the page of a subject, if it has a ref. */
export function subjectLink(o) {
  return o.ref ? h("a", { class: "subject", href: `#/subject/ref/${encodeURIComponent(o.ref)}` }, o.subject) : h("span", { class: "subject" }, o.subject);
}
