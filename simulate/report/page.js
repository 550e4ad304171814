
// What the report draws: bars and small columns in its tables, and what happened over time. The functions above are
// those of chart.js.

/** utc is a time such that the charts, which speak of local times, show it as UTC. */
const utc = (ms) => ms + new Date(ms).getTimezoneOffset() * 60_000;

const numbers = (node) => node.dataset.values.split(",").map(Number);

for (const node of document.querySelectorAll(".share")) {
  node.append(bar(document, { share: Number(node.dataset.share), kind: node.dataset.kind || "second" }));
}

for (const node of document.querySelectorAll(".heights")) {
  // Every value twice, so that it is a step and not a point of a slope.
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

/** dated is an area chart that names days where they begin, and the time at the cursor. */
function dated(doc, spec) {
  const svg = areaChart(doc, spec);
  const day = (t) => new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" }).format(t);
  for (const text of svg.querySelectorAll(".axes text")) {
    if (text.textContent === "00:00") text.textContent = day(svg.timeAt(Number(text.getAttribute("x"))) + 60_000);
  }
  const at = spec.times[spec.cursor];
  if (at !== undefined) {
    const told = el(doc, "text", { class: "told", x: spec.width - 10, y: 18, "text-anchor": "end" }, `${day(at)} ${clock(at, 300_000)} UTC`);
    svg.append(told);
  }
  return svg;
}
