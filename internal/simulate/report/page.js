
// The charts of the report: bars and histograms in tables, and requests over time. The report
// inserts chart.js above this script.

/** utc shifts a time so that the charts, which show local times, show UTC. */
const utc = (ms) => ms + new Date(ms).getTimezoneOffset() * 60_000;

const numbers = (node) => node.dataset.values.split(",").map(Number);

for (const node of document.querySelectorAll(".share")) {
  node.append(bar(document, { share: Number(node.dataset.share), kind: node.dataset.kind || "second" }));
}

for (const node of document.querySelectorAll(".heights")) {
  // Repeat every value, so that it is drawn as a step.
  const values = numbers(node).flatMap((v) => [v, v]);
  node.append(sparkline(document, { width: 120, height: 26, series: [{ kind: node.dataset.kind, values }] }));
}

for (const node of document.querySelectorAll(".timeline")) {
  const start = Number(node.dataset.start);
  const step = Number(node.dataset.step);
  const lines = new Map([...node.querySelectorAll(".line")].map((line) => [line.dataset.name, numbers(line)]));
  const requests = lines.get("requests");
  const denied = lines.get("denied") ?? requests.map(() => 0);
  const series = [
    { name: "denied", kind: "denied", values: denied },
    { name: "allowed", kind: "allowed", values: requests.map((n, i) => n - denied[i]) },
  ];
  if (lines.has("in shadow")) series.push({ name: "in shadow", kind: "degraded", values: lines.get("in shadow"), over: true });
  const chart = figure(document, dated, node.dataset.label);
  node.append(chart.node);
  chart.show({ height: 220, times: requests.map((_, i) => utc(start + i * step)), unit: `/${duration(step)}`, series });
}

/** dated is an area chart that shows dates on its axis, and the time at the cursor. */
function dated(doc, spec) {
  const svg = areaChart(doc, spec);
  const day = (t) => new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" }).format(t);
  for (const text of svg.querySelectorAll(".axes text")) {
    if (text.textContent === "00:00") text.textContent = day(svg.timeAt(Number(text.getAttribute("x"))) + 60_000);
  }
  const at = spec.times[spec.cursor];
  if (at !== undefined) {
    const attributes = { class: "cursor-time", x: spec.width - 10, y: 18, "text-anchor": "end" };
    svg.append(el(doc, "text", attributes, `${day(at)} ${clock(at, 300_000)} UTC`));
  }
  return svg;
}
