// The overview answers these questions in order: is the limiter healthy, which subjects are
// limited, and is the cause an attack or a mistake?
import { areaChart, bar, figure, lineChart, sparkline } from "../chart.js";
import { columns, empty, fill, h, refill, row, say, table } from "../dom.js";
import { cells } from "../health.js";
import { cause, health, pace, traffic } from "../verdict.js";
import { ago, clock, number, tierAndPolicy, share, time } from "../words.js";
import { grouped, isShadow, subjectLink } from "./violations.js";

const RANGES = [["5 min", 300], ["15 min", 900], ["2 h", 7200]];
const GLYPHS = { good: "●", watch: "▲", bad: "■" };
const FEED = 8;
const ALIKE = 200; // number of newest violations to group
const TOP = 8;
const PROCESSES = columns("Process", "Decisions | figure", "Denied | figure", "Degraded | figure", "p99 | figure", "Store", "Since start | figure", "Last report | time");

export function overview(app) {
  const { model } = app;
  let range = 300;
  let only = null; // {field, name}: the tier or policy that the first chart shows
  const state = h("h1", { class: "state" });
  const summary = h("div", { class: "summary" });
  const strip = h("ul", { class: "strip", "aria-label": "Health" });
  const ranges = RANGES.map(([label, seconds]) => h("button", { type: "button", on: { click: () => { range = seconds; update(); } } }, label));
  const chip = h("button", { type: "button", class: "chip", on: { click: () => choose(null) } });
  const decisions = figure(document, areaChart, "Decisions per second");
  const blocked = figure(document, lineChart, "Share of decisions denied");
  const latency = figure(document, lineChart, "Decision time");
  const store = figure(document, lineChart, "Store calls");
  const storePanel = h("section", { class: "panel" }, header("Store"), store.node);
  const notes = { BlockedShare: h("span", { class: "quiet" }), LimiterSlow: h("span", { class: "quiet" }) };
  const tiers = h("div", { class: "multiples" });
  const policies = h("div", { class: "multiples" });
  const top = h("ol", { class: "top" });
  const feed = h("ol", { class: "brief" });
  const { node: processes, body: each } = table("Processes that share the store", PROCESSES);
  const processPanel = h("section", { class: "panel processes", hidden: true },
    header("Processes", h("span", { class: "quiet" }, "These processes share the store. The data above covers all of them, except for violations and alerts.")), processes);
  const node = h("section", { class: "overview" },
    h("div", { class: "verdict" }, state, summary), strip,
    h("div", { class: "columns" },
      h("section", { class: "panel main" },
        header("Decisions", chip, h("div", { class: "ranges", role: "group", "aria-label": "Time range" }, ranges)), decisions.node),
      h("section", { class: "panel" }, header("Top offenders", h("a", { href: "#/offenders" }, "All offenders")), top)),
    h("div", { class: "thirds" },
      h("section", { class: "panel" }, header("Denied share", notes.BlockedShare), blocked.node),
      h("section", { class: "panel" }, header("Decision time", notes.LimiterSlow), latency.node),
      storePanel),
    h("div", { class: "columns" },
      h("section", { class: "panel main" },
        header("By tier", h("span", { class: "quiet" }, "Last 15 min. Select one to see only its chart.")), tiers, header("By policy"), policies),
      h("section", { class: "panel" }, header("Latest violations", h("a", { href: "#/violations" }, "All violations")), feed)), processPanel);

  function choose(next) {
    only = next;
    Object.assign(app.filter, { tier: "", policy: "" });
    if (next) app.filter[next.field] = next.name;
    if (next && range > 900) range = 900;
    update();
  }

  function update() {
    verdict();
    fill(strip, cells(model).map((c) => h("li", { class: c.level },
      h("span", { class: "name" }, c.name), h("strong", {}, glyph(c.level), c.word), h("span", { class: "detail" }, c.detail))));
    charts();
    multiples(tiers, "tier", "No decisions by tier yet.");
    multiples(policies, "policy", "No decisions by policy yet.");
    worst();
    brief();
    fleet();
  }

  function fleet() {
    processPanel.hidden = model.processes.length < 2;
    fill(each, model.processes.map((p) => row(PROCESSES, [
      `${p.name}${p.self ? " (this page)" : ""}`, number(p.decisions_per_second, "/s"), number(p.denied_per_second, "/s"), number(p.degraded_per_second, "/s"),
      p.silent ? "–" : number(1000 * p.p99_seconds, "ms"), p.silent ? "–" : p.store_up ? "up" : "down",
      `${number(p.total.allowed + p.total.denied)}, ${number(p.total.denied)} denied`,
      p.silent ? `silent, ${ago(time(p.heard) ?? 0)}` : "reports",
    ], { class: p.silent ? "silent" : "" })));
  }

  function verdict() {
    const found = health(model);
    const why = cause(model);
    state.className = `state ${found.level}`;
    refill(state, h("span", { class: "health" }, glyph(found.level), found.text), " ",
      h("span", { class: `sees ${why.kind}` }, why.headline, why.kind === "attack" ? listed(why.subjects, (s) => [subjectLink(s), ` ${pace(s)}`], "; ") : null,
        why.kind === "attack" ? "." : null));
    const links = why.kind === "abuse" ? why.subjects.map((s) => subjectLink(s))
      : why.policy ? [h("a", { href: "#/limits" }, why.policy)] : [];
    refill(summary,
      h("p", {}, traffic(model)),
      found.reasons.length > 0 ? h("ul", { class: "why" }, found.reasons.map((r) => h("li", {}, r))) : null,
      h("p", { class: `cause ${why.kind}` }, why.text,
        links.length > 0 ? h("span", { class: "quiet" }, " See ") : null, listed(links, (link) => [link], ", ")));
  }

  function charts() {
    RANGES.forEach(([, seconds], i) => {
      ranges[i].setAttribute("aria-pressed", seconds === range);
      ranges[i].disabled = only !== null && seconds > 900;
    });
    chip.hidden = only === null;
    if (only) say(chip, `${only.field} ${only.name} ✕`);
    chip.setAttribute("aria-label", only ? `Show all, not only ${only.field} ${only.name}` : "");
    const all = range > 900 ? model.long : model.points.slice(-range);
    const per = range > 900 ? 10 : 1;
    const list = only ? model.steps((s) => s[only.field] === only.name).slice(-range / 10) : all;
    const rate = (k) => list.map((p) => p[k] / (p.seconds ?? per));
    decisions.show({ ...axis(list, range), height: 264, unit: "/s", series: [
      { name: "allowed", kind: "allowed", values: rate("allowed") },
      { name: "denied", kind: "denied", values: rate("denied") },
      { name: "failed", kind: "failed", values: rate("failed") },
      { name: "of these, degraded", kind: "degraded", over: true, values: rate("degraded") },
    ] });
    const times = { ...axis(all, range), height: 130 };
    const percent = (p) => share(p.denied, p.allowed + p.denied);
    blocked.show({ ...times, unit: "share", max: 0.12, marks: alertAt("BlockedShare"), series: [
      { name: "denied", kind: "denied", values: all.map(percent) },
    ] });
    const some = (p, v) => (p.allowed + p.denied > 0 ? v : null);
    latency.show({ ...times, unit: "ms", marks: alertAt("LimiterSlow"), series: [
      { name: "p99", kind: "degraded", values: all.map((p) => some(p, 1000 * p.p99_seconds)) },
      { name: "p50", kind: "allowed", values: all.map((p) => some(p, 1000 * p.p50_seconds)) },
    ] });
    storePanel.hidden = model.store?.kind === "memory"; // an in-process store has no calls
    store.show({ ...times, unit: "/s", series: [
      { name: "calls", kind: "allowed", values: all.map((p) => p.calls / per) },
      { name: "saved", kind: "second", values: all.map((p) => p.saved / per) },
      { name: "failed", kind: "failed", rare: true, values: all.map((p) => p.calls_failed / per) },
    ] });
  }

  /**
   * alertAt returns a mark at the threshold of an alert. It writes the threshold next to the title
   * of the chart, so that no line of the chart crosses the text.
   */
  function alertAt(name) {
    const alert = model.alerts.find((a) => a.name === name);
    say(notes[name], alert ? `Alert above ${number(alert.threshold, alert.unit)}` : "");
    return alert ? [{ name: "", value: alert.threshold }] : [];
  }

  function multiples(node, field, none) {
    const names = model.names(field).slice(0, 24);
    if (names.length === 0) {
      fill(node, empty(none));
      return;
    }
    while (node.children.length > names.length) node.lastChild.remove();
    if (node.firstChild?.nodeName === "P") fill(node);
    while (node.children.length < names.length) {
      const click = (event) => pick(event.currentTarget.dataset.name, field);
      node.append(h("button", { type: "button", class: "multiple", on: { click } }));
    }
    names.forEach((name, i) => {
      const steps = model.steps((s) => s[field] === name);
      const last = steps.slice(-6);
      const seconds = last.reduce((sum, s) => sum + s.seconds, 0) || 1;
      const denied = last.reduce((sum, s) => sum + s.denied, 0);
      const all = last.reduce((sum, s) => sum + s.allowed, denied);
      const tile = node.children[i];
      tile.dataset.name = name;
      tile.setAttribute("aria-pressed", only?.field === field && only.name === name);
      fill(tile, h("span", { class: "name" }, name), h("span", { class: "rate" }, number(all / seconds, "/s")),
        h("span", { class: denied > 0 ? "blocked some" : "blocked" }, all > 0 ? `${number(share(denied, all), "share")} denied` : "no traffic"),
        sparkline(document, { width: 180, height: 34, label: `${name}, the last 15 minutes`, series: [
          { kind: "allowed", values: steps.map((s) => s.allowed / s.seconds) },
          { kind: "denied", values: steps.map((s) => s.denied / s.seconds) },
        ] }));
    });
  }
  function pick(name, field) {
    choose(only?.field === field && only.name === name ? null : { field, name });
  }

  function worst() {
    const { policy, ...subjects } = model.state.top ?? {};
    const known = Object.values(subjects).flatMap((l) => l ?? []).filter((o) => !model.offenders.some((now) => now.ref && now.ref === o.ref));
    const list = [...known, ...model.offenders].sort((a, b) => b.denied - a.denied).slice(0, TOP);
    if (list.length === 0) {
      fill(top, h("li", {}, empty("No denials in the last few minutes.")));
      return;
    }
    const most = list[0].denied || 1;
    refill(top, list.map((o) => h("li", {},
      subjectLink(o), h("span", { class: "figure" }, number(o.denied)), bar(document, { share: o.denied / most, kind: "denied" }))));
  }

  function brief() {
    const alike = (v) => [v.subject, v.ref, v.tier, v.policy, v.limit, v.reason]; // so that one subject does not hide all others
    const list = grouped(model.violations.slice(-ALIKE), alike).slice(0, FEED);
    refill(feed, list.length === 0 ? h("li", {}, empty("No violations yet."))
      : list.map(([v, ...older]) => h("li", isShadow(v) ? { class: "would" } : {},
        h("time", {}, clock(time(v.at) ?? 0)),
        h("span", {}, subjectLink(v), older.length > 0 ? h("span", { class: "quiet" }, ` ×${older.length + 1}`) : null),
        h("span", { class: "quiet" }, `${tierAndPolicy(v.tier, v.policy)} · ${v.reason === "limit" ? v.limit : isShadow(v) ? "shadow: not denied" : v.reason}`))));
  }

  return { node, update, slow: true };
}

/** listed concatenates the parts of all items, with a separator between items. */
const listed = (items, parts, between) => items.flatMap((item, i) => (i === 0 ? parts(item) : [between, ...parts(item)]));

const header = (title, ...rest) => h("header", {}, h("h2", {}, title), rest);
const glyph = (level) => h("span", { class: "glyph", "aria-hidden": "true" }, GLYPHS[level]);

/**
 * axis returns the time axis for points. It spans the range, or less if the points cover less, but
 * at least a minute.
 */
function axis(list, range) {
  const times = list.map((p) => p.at * 1000);
  const to = times.at(-1) ?? Date.now();
  const width = Math.min(range * 1000, Math.max(60_000, to - (times[0] ?? to)));
  return { times, from: to - width, to };
}
