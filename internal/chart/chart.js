// Charts as SVG, and the formatting of their numbers and times. The functions that draw take a
// document and data, and return elements. chart.css styles the elements by class: for example, it
// gives a series of class "denied" the color of denials. Times are in milliseconds since 1970. This
// file imports nothing, so that a report can embed it.

const SVG = "http://www.w3.org/2000/svg";
let serial = 0; // makes pattern ids unique among the charts of a page

/** el creates an SVG element. Children that are strings become text, never markup. */
const el = (doc, name, attributes, ...children) => filled(doc.createElementNS(SVG, name), attributes, children);

function filled(node, attributes = {}, children = []) {
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

/**
 * drawing creates an empty chart of the given size. stretched creates one whose size is set by the
 * style sheet. A chart without a label is hidden from screen readers.
 */
function drawing(doc, kind, width, height, label, size = { width, height }) {
  const named = label ? { role: "img", "aria-label": label } : { "aria-hidden": "true" };
  return el(doc, "svg", { class: `chart ${kind}`, viewBox: `0 0 ${width} ${height}`, ...size, ...named });
}

const stretched = (doc, kind, width, height, label) => drawing(doc, kind, width, height, label, { preserveAspectRatio: "none" });

const round = (x) => Math.round(x * 10) / 10;

/**
 * number formats a value with its unit, rounded to about three digits: 12.3 k/s, 4.5 ms, 12%, 1.5
 * GiB.
 */
export function number(value, unit = "") {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (unit === "share") return `${short(value * 100)}%`;
  if (unit === "ms" && value >= 1000) return `${short(value / 1000)} s`;
  if (unit === "ms" && value > 0 && value < 0.1) return `${short(value * 1000)} µs`;
  const [scale, prefix] = unit === "B" ? binary(value) : unit === "ms" ? [1, ""] : decimal(value);
  const suffix = unit.startsWith("/") && !prefix ? unit : `${prefix}${unit}`;
  return suffix === "" ? short(value / scale) : `${short(value / scale)}${suffix.startsWith("/") ? "" : " "}${suffix}`;
}

function short(value) {
  const size = Math.abs(value);
  const digits = size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : 2;
  return value.toFixed(digits).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
}

function decimal(value) {
  const size = Math.abs(value);
  if (size >= 999_500_000) return [1e9, "G"];
  if (size >= 999_500) return [1e6, "M"];
  return size >= 10_000 ? [1e3, "k"] : [1, ""];
}

function binary(value) {
  const names = ["", "Ki", "Mi", "Gi", "Ti"];
  let i = 0;
  while (i < names.length - 1 && Math.abs(value) >= 1024 ** (i + 1)) i++;
  return [1024 ** i, names[i]];
}

/**
 * ticks returns round values from 0 to the first one that is at least max. Their number is about
 * count.
 */
function ticks(max, count = 4) {
  if (!(max > 0)) return [0, 1];
  const raw = max / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.8);
  const list = [];
  for (let i = 0; ; i++) {
    const value = Number((i * step).toPrecision(12));
    list.push(value);
    if (value >= max) return list;
  }
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];

/** timeTicks returns round local times between from and to. Their number is about count. */
function timeTicks(from, to, count = 5) {
  const seconds = (to - from) / 1000;
  const step = 1000 * (STEPS.find((s) => s >= seconds / count) ?? STEPS.at(-1));
  const zone = new Date(from).getTimezoneOffset() * 60_000;
  const list = [];
  for (let t = Math.ceil((from - zone) / step) * step + zone; t <= to; t += step) list.push(t);
  return list;
}

/**
 * clock formats a time as "14:05". If span, the time between two ticks, is below five minutes, clock
 * adds the seconds. If span is above two days, clock returns the date instead.
 */
export function clock(time, span = 0) {
  const d = new Date(time);
  const two = (n) => String(n).padStart(2, "0");
  const hours = `${two(d.getHours())}:${two(d.getMinutes())}`;
  if (span > 2 * 86400_000) return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;
  return span < 5 * 60_000 ? `${hours}:${two(d.getSeconds())}` : hours;
}

/**
 * areaChart and lineChart draw series over time.
 *
 * spec: {label, width, height, times, unit, from, to, max, marks: [{name, value}], cursor, series:
 * [{name, kind, values, over, rare}]}
 *
 * - values has one value for each time; null is a gap. kind is the class of the series' color.
 * - An area chart stacks its series. A series with over set is not stacked: its values are part of
 *   the stacked series, so it is drawn as hatching on top of the stack.
 * - cursor is the index of the time to mark, or null.
 * - from and to are the ends of the time axis; by default, they are the first and the last time.
 * - The value axis reaches at least max.
 * - marks are levels, which are drawn as horizontal lines if the value axis reaches them.
 */
export function areaChart(doc, spec) {
  const stacked = spec.series.filter((s) => !s.over);
  const f = frame(doc, spec, peak(stacked, spec.times));
  stack(doc, f.plot, f, stacked, spec.times);
  for (const s of spec.series.filter((s) => s.over)) {
    const zero = spec.times.map(() => 0);
    const fill = hatch(doc, f.svg, s.kind);
    for (const [start, end] of runs(s.values, true)) {
      f.plot.append(el(doc, "path", { class: "hatched", fill, d: band(f, spec.times, zero, s.values, start, end) }));
      f.plot.append(el(doc, "path", { class: `edge ${s.kind}`, d: line(f, spec.times, s.values, start, end) }));
    }
  }
  return f.svg;
}

/** peak returns the largest sum of the values of all series at one time. */
const peak = (series, times) => Math.max(0, ...times.map((_, i) => series.reduce((sum, s) => sum + (s.values[i] ?? 0), 0)));

/** stack draws every series as an area on top of the series before it. f has the scales. */
function stack(doc, node, f, series, times) {
  let base = times.map(() => 0);
  for (const s of series) {
    const top = base.map((b, i) => b + (s.values[i] ?? 0));
    for (const [start, end] of runs(s.values, true)) {
      node.append(el(doc, "path", { class: `area ${s.kind}`, d: band(f, times, base, top, start, end) }));
      node.append(el(doc, "path", { class: `edge ${s.kind}`, d: line(f, times, top, start, end) }));
    }
    base = top;
  }
}

/**
 * lineChart draws every series as a line; see areaChart. A rare series has no line where it is 0.
 */
export function lineChart(doc, spec) {
  const f = frame(doc, spec, Math.max(0, ...spec.series.flatMap((s) => s.values.map((v) => v ?? 0))));
  for (const s of spec.series) {
    for (const [start, end] of runs(s.values, s.rare)) {
      f.plot.append(el(doc, "path", { class: `line ${s.kind}`, d: line(f, spec.times, s.values, start, end) }));
    }
    if (spec.cursor != null && s.values[spec.cursor] != null) {
      f.plot.append(el(doc, "circle", { class: `dot ${s.kind}`, r: 3, cx: round(f.x(spec.times[spec.cursor])), cy: round(f.y(s.values[spec.cursor])) }));
    }
  }
  return f.svg;
}

/** frame draws the axes, and returns the scales and the group to draw in. */
function frame(doc, spec, highest) {
  const { width, height, times, unit = "" } = spec;
  const top = Math.max(highest * 1.08, spec.max ?? 0) || 1;
  const values = ticks(top, height < 110 ? 2 : height < 200 ? 3 : 5).filter((v) => v <= top);
  const pad = { left: 8 + 6.5 * Math.max(...values.map((v) => number(v, unit).length)), right: 8, top: 8, bottom: 20 };
  const from = spec.from ?? times[0] ?? 0;
  const to = Math.max(spec.to ?? times.at(-1) ?? 1, from + 1);
  const x = (t) => pad.left + ((t - from) / (to - from)) * (width - pad.left - pad.right);
  const y = (v) => height - pad.bottom - (v / top) * (height - pad.top - pad.bottom);
  const svg = drawing(doc, "timed", width, height, spec.label);
  const axes = el(doc, "g", { class: "axes", "aria-hidden": "true" });
  for (const v of values) {
    axes.append(
      el(doc, "line", { class: v === 0 ? "base" : "grid", x1: pad.left, x2: width - pad.right, y1: round(y(v)), y2: round(y(v)) }),
      el(doc, "text", { x: pad.left - 6, y: round(y(v) + 3.5), "text-anchor": "end" }, number(v, unit)),
    );
  }
  const marks = timeTicks(from, to, Math.max(2, Math.floor(width / 80)));
  const span = marks.length > 1 ? marks[1] - marks[0] : to - from;
  for (const t of marks) {
    const anchor = x(t) < pad.left + 24 ? "start" : x(t) > width - 32 ? "end" : "middle";
    axes.append(el(doc, "text", { x: round(x(t)), y: height - 5, "text-anchor": anchor }, clock(t, span)));
  }
  for (const m of (spec.marks ?? []).filter((m) => m.value > 0 && m.value <= top)) {
    axes.append(
      el(doc, "line", { class: "level", x1: pad.left, x2: width - pad.right, y1: round(y(m.value)), y2: round(y(m.value)) }),
      el(doc, "text", { class: "value", x: pad.left + 4, y: round(y(m.value) - 4) }, m.name),
    );
  }
  const plot = el(doc, "g", { class: "plot" });
  svg.append(axes, plot);
  if (spec.cursor != null && times[spec.cursor] != null) {
    const at = round(x(times[spec.cursor]));
    svg.append(el(doc, "line", { class: "cursor", x1: at, x2: at, y1: pad.top, y2: height - pad.bottom }));
  }
  svg.timeAt = (px) => from + ((px - pad.left) / (width - pad.left - pad.right)) * (to - from);
  return { svg, plot, x, y };
}

/**
 * runs returns the runs of values that are not null, each as its first and last index. If called
 * with nothing = true, a run consists of values above 0, plus the zeros directly before and after
 * them. All other zeros are left out, so that they are not drawn.
 */
function runs(values, nothing = false) {
  const list = [];
  const there = (i) => i >= 0 && i < values.length && values[i] != null;
  const counts = (i) => there(i) && (!nothing || values[i] > 0);
  for (let i = 0; i < values.length; i++) {
    if (!counts(i)) continue;
    const start = nothing && there(i - 1) ? i - 1 : i;
    while (counts(i + 1)) i++;
    list.push([start, nothing && there(i + 1) ? i + 1 : i]);
  }
  return list;
}

function line(f, times, values, start, end) {
  let d = "";
  for (let i = start; i <= end; i++) d += `${i === start ? "M" : "L"}${round(f.x(times[i]))},${round(f.y(values[i]))}`;
  return start === end ? `${d}h1` : d;
}

function band(f, times, low, high, start, end) {
  let d = line(f, times, high, start, end);
  for (let i = end; i >= start; i--) d += `L${round(f.x(times[i]))},${round(f.y(low[i]))}`;
  return `${d}Z`;
}

/** hatch adds a pattern of slanted lines to a chart, and returns a fill with that pattern. */
function hatch(doc, svg, kind) {
  const id = `hatch-${++serial}`;
  const pattern = el(doc, "pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
  pattern.append(el(doc, "rect", { class: `tint ${kind}`, width: 6, height: 6 }), el(doc, "line", { class: `line ${kind}`, x1: 0, x2: 0, y1: 0, y2: 6 }));
  svg.prepend(el(doc, "defs", {}, pattern));
  return `url(#${id})`;
}

/** sparkline draws stacked series without axes: {label, width, height, series: [{kind, values}]}. */
export function sparkline(doc, spec) {
  const { width, height } = spec;
  const length = Math.max(2, ...spec.series.map((s) => s.values.length));
  const times = Array.from({ length }, (_, i) => i);
  const max = peak(spec.series, times) || 1;
  const f = { x: (i) => (i / (length - 1)) * width, y: (v) => height - 1 - (v / max) * (height - 3) };
  const svg = stretched(doc, "spark", width, height, spec.label);
  svg.append(el(doc, "line", { class: "base", x1: 0, x2: width, y1: height - 0.5, y2: height - 0.5 }));
  stack(doc, svg, f, spec.series, times);
  return svg;
}

/**
 * bar draws a share of a whole as one horizontal bar: {label, share, sure, kind}. sure is the part
 * of the share that is certain; the rest of the share is drawn in a paler color.
 */
export function bar(doc, spec) {
  const part = (share) => round(100 * Math.min(1, Math.max(0, share || 0)));
  const svg = stretched(doc, "bar", 100, 8, spec.label);
  svg.append(el(doc, "rect", { class: "rail", width: 100, height: 8 }), el(doc, "rect", { class: `maybe ${spec.kind}`, width: part(spec.share), height: 8 }));
  svg.append(el(doc, "rect", { class: `fill ${spec.kind}`, width: part(spec.sure ?? spec.share), height: 8 }));
  return svg;
}

/**
 * windowLine draws a limit's window on a timeline. To the left of now are the charges, as marks
 * whose height shows their units. To the right is the usage, which falls as units leave the window.
 * If the limit is used up, a dot marks the time at which it allows requests again.
 *
 * spec: {label, width, height, now, window, used, capacity, resetAfter, retryAfter, steady, rate,
 * logged, entries: [{at, until, units}] or null}
 * window, resetAfter and retryAfter are in milliseconds. An entry whose at is null is a place that
 * is held under a concurrency limit. A limit without entries does not record the times of charges:
 * its usage falls to 0 in the time resetAfter, gradually if steady is set, otherwise at the end. A
 * sliding limit with a burst has both logged units, which leave with their entries, and a meter,
 * which falls by rate units per millisecond. Its usage is the larger of the two.
 */
export function windowLine(doc, spec) {
  const { width, height = 120, now, used, capacity } = spec;
  const entries = spec.entries ?? [];
  const charged = entries.filter((e) => e.at != null);
  const span = Math.max(spec.window, spec.resetAfter ?? 0, ...charged.map((e) => e.until - e.at), ...entries.map((e) => e.until - now), 1);
  const past = charged.length > 0 ? span : 0;
  const pad = { left: 6, right: 6, top: 22, bottom: 20 };
  const floor = height - pad.bottom;
  const x = (t) => pad.left + ((t - now + past) / (past + span)) * (width - pad.left - pad.right);
  const full = Math.max(capacity, used, 1);
  const y = (units) => floor - (units / full) * (floor - pad.top);
  const svg = drawing(doc, "window", width, height, spec.label);

  if (past) {
    const left = x(now - spec.window);
    svg.append(el(doc, "rect", { class: "inside", x: round(left), y: pad.top, width: round(x(now) - left), height: floor - pad.top }));
  }
  svg.append(el(doc, "line", { class: "base", x1: pad.left, x2: width - pad.right, y1: floor, y2: floor }));
  for (const t of relativeTicks(past, span, width)) {
    const anchor = x(now + t) < 30 ? "start" : x(now + t) > width - 30 ? "end" : "middle";
    const label = t === 0 ? "now" : `${t < 0 ? "−" : "+"}${duration(Math.abs(t))}`;
    svg.append(el(doc, "text", { x: round(x(now + t)), y: height - 5, "text-anchor": anchor, class: t === 0 ? "now" : "" }, label));
  }

  const highest = Math.max(1, ...charged.map((e) => e.units));
  for (const e of charged) {
    const high = Math.max(4, (e.units / highest) * (floor - pad.top) * 0.8);
    // A past charge may have the time at which its slice ends, up to spec.window / 125 after now. A
    // charge with a later time is booked.
    const kind = e.at > now + spec.window / 100 ? "mark booked" : "mark";
    svg.append(el(doc, "line", { class: kind, x1: round(x(e.at)), x2: round(x(e.at)), y1: floor, y2: round(floor - high) },
      el(doc, "title", {}, `${e.units} at ${clock(e.at)}, leaves at ${clock(e.until)}`)));
  }
  if (past) svg.append(el(doc, "text", { class: "note", x: pad.left, y: 14 }, `charged${highest > 1 ? `, tallest ${number(highest)} units` : ""}`));

  const leave = leaving(spec, entries, now);
  const path = leave.map(([t, units], i) => {
    if (i === 0) return `M${round(x(t))},${round(y(units))}`;
    return spec.steady || spec.rate ? `L${round(x(t))},${round(y(units))}` : `H${round(x(t))}V${round(y(units))}`;
  }).join("");
  svg.append(
    el(doc, "path", { class: "area used", d: `${path}V${floor}H${round(x(now))}Z` }),
    el(doc, "path", { class: "edge used", d: path }),
    el(doc, "line", { class: "full", x1: round(x(now)), x2: width - pad.right, y1: round(y(capacity)), y2: round(y(capacity)) }),
    el(doc, "line", { class: "cursor", x1: round(x(now)), x2: round(x(now)), y1: pad.top - 4, y2: floor }),
  );
  const free = spec.retryAfter > 0 ? [now + spec.retryAfter, capacity] : leave.find(([, units]) => units < capacity);
  if (used >= capacity && free) svg.append(el(doc, "circle", { class: "dot used", r: 3.5, cx: round(x(free[0])), cy: round(y(free[1])) }));
  const note = used < capacity ? `room for ${number(capacity - used)} now` : free ? `room again in ${duration(free[0] - now)}` : "no room";
  svg.append(el(doc, "text", { class: "note", x: width - pad.right, y: 14, "text-anchor": "end" }, note));
  return svg;
}

/** leaving returns the units used from now on, as [time, units] for each change. */
function leaving(spec, entries, now) {
  let left = spec.rate ? spec.logged : spec.used;
  const list = [[now, left]];
  const known = entries.reduce((sum, e) => sum + e.units, 0);
  const byEnd = entries.filter((e) => e.until > now).sort((a, b) => a.until - b.until);
  const older = left - known; // units of older entries, which are not listed and leave before the listed entries
  if (older > 0 && byEnd.length > 0) list.push([byEnd[0].until, (left -= older)]);
  for (const e of byEnd) list.push([e.until, (left = Math.max(0, left - e.units))]);
  if (spec.rate) return aboveMeter(list, spec, now);
  if (byEnd.length === 0 && spec.used > 0) list.push([now + (spec.resetAfter ?? 0), 0]);
  return list;
}

/**
 * aboveMeter returns the corners of a line that shows the larger of two usages: the usage of a log,
 * which falls in steps, and the usage of a meter, which falls evenly.
 */
function aboveMeter(steps, spec, now) {
  const empty = now + spec.resetAfter; // when the meter is empty; if the log lasts longer, the meter is unknown
  const meter = (t) => (empty > steps.at(-1)[0] + 1 ? Math.min(spec.used, Math.max(0, (empty - t) * spec.rate)) : 0);
  const list = [];
  steps.forEach(([t, units], i) => {
    const next = steps[i + 1]?.[0] ?? Math.max(t, empty);
    const meets = empty - units / spec.rate; // when the meter falls below the log
    list.push([t, Math.max(units, meter(t))]);
    if (meets > t && meets < next) list.push([meets, Math.max(units, meter(meets))]);
    list.push([next, Math.max(units, meter(next))]);
  });
  return list;
}

function relativeTicks(past, future, width) {
  const step = 1000 * (STEPS.find((s) => s * 1000 >= (past + future) / Math.max(3, width / 90)) ?? STEPS.at(-1));
  const list = [];
  for (let t = -Math.floor(past / step) * step; t <= future; t += step) list.push(t === 0 ? 0 : t);
  return list;
}

/** duration formats a number of milliseconds in at most two units: 850 ms, 12.5 s, 3 m 20 s, 2 d. */
export function duration(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const units = [[86400_000, "d"], [3600_000, "h"], [60_000, "m"], [1000, "s"]];
  const i = units.findIndex(([size]) => ms >= size);
  const [size, name] = units[i];
  if (i === 3) return `${short(ms / size)} ${name}`;
  const [smaller, its] = units[i + 1];
  const rest = Math.round((ms % size) / smaller);
  return rest > 0 && rest * smaller < size ? `${Math.floor(ms / size)} ${name} ${rest} ${its}` : `${Math.round(ms / size)} ${name}`;
}

/**
 * figure creates a chart with a cursor that follows the pointer, or the arrow keys while the chart
 * has the focus. draw is areaChart or lineChart. The function show of the result draws a spec at
 * the available width. If the next spec has later times, the cursor stays at its time. The legend
 * shows the values at the cursor or, without a cursor, the last values.
 */
export function figure(doc, draw, label) {
  const html = (name, attributes, ...children) => filled(doc.createElement(name), attributes, children);
  const legend = html("div", { class: "legend" });
  const stage = html("div", { class: "stage", tabindex: "0", role: "slider", "aria-label": `${label}, chart`, "aria-valuemin": "0" });
  const node = html("div", { class: "figure" }, legend, stage);
  let spec = null;
  let cursor = null;
  let asked = false; // whether paint is scheduled

  const index = () => (cursor === null ? null : nearest(spec.times, cursor));
  function paint() {
    asked = false;
    const width = Math.floor(stage.clientWidth);
    if (!spec || width === 0) return;
    const at = index();
    stage.replaceChildren(draw(doc, { ...spec, label, width, cursor: at }));
    const shown = at ?? spec.times.length - 1;
    const values = spec.series.map((s) => ({ ...s, text: number(s.values[shown], spec.unit) }));
    const when = spec.times.length === 0 ? "" : at === null ? "latest" : clock(spec.times[at]);
    legend.replaceChildren(...values.map((v) => html("span", { class: "item" },
      html("i", { class: `swatch ${v.kind}${v.over ? " over" : ""}` }), html("span", { class: "name" }, v.name), html("b", {}, v.text))),
    html("span", { class: "when" }, when));
    stage.setAttribute("aria-valuemax", Math.max(0, spec.times.length - 1));
    stage.setAttribute("aria-valuenow", Math.max(0, shown));
    const shownValues = values.map((v) => `${v.name} ${v.text}`).join(", ");
    stage.setAttribute("aria-valuetext", spec.times.length === 0 ? "nothing yet" : `${clock(spec.times[shown])}: ${shownValues}`);
  }
  function move(time) {
    cursor = time;
    if (!asked) doc.defaultView.requestAnimationFrame(paint);
    asked = true;
  }
  stage.addEventListener("pointermove", (event) => {
    const svg = stage.firstElementChild;
    if (svg?.timeAt) move(svg.timeAt(event.clientX - svg.getBoundingClientRect().left));
  });
  stage.addEventListener("pointerleave", () => move(null));
  stage.addEventListener("blur", () => move(null));
  stage.addEventListener("keydown", (event) => {
    if (!spec || spec.times.length === 0) return;
    const last = spec.times.length - 1;
    const at = index() ?? last;
    const jump = event.shiftKey ? 10 : 1;
    const to = { ArrowLeft: at - jump, ArrowRight: at + jump, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    move(spec.times[Math.min(last, Math.max(0, to))]);
  });
  new doc.defaultView.ResizeObserver(() => move(cursor)).observe(stage);
  return { node, show(next) { spec = next; paint(); } };
}

function nearest(times, time) {
  let best = null;
  for (let i = 0; i < times.length; i++) if (best === null || Math.abs(times[i] - time) < Math.abs(times[best] - time)) best = i;
  return best;
}
