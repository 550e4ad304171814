// External APIs: the usage of their limits, and the number of waiting calls.
import { bar } from "../chart.js";
import { empty, fill, h, heading } from "../dom.js";
import { clock, count, number, time, until } from "../words.js";

export function outbound(app) {
  const panel = h("div", { class: "cards" });
  const node = h("section", { class: "outbound" }, heading("Outbound", "Calls to external APIs, and how much of their limits is used."), panel);

  function update() {
    const list = app.model.state.outbound ?? [];
    fill(panel, list.length === 0
      ? empty("No outbound APIs are configured. APIs under “outbound” in the configuration show their usage and waits here.")
      : list.map(card));
  }
  function card(api) {
    const used = api.capacity > 0 ? api.used / api.capacity : 0;
    const cooling = time(api.cooling_until);
    const now = Date.now();
    const facts = [
      ["Calls", count(api.calls, "call")],
      ["Waited", api.calls > 0 ? `${number(api.waited)} (${number(api.waited / api.calls, "share")})` : "–"],
      ["Average wait", number(1000 * api.average_wait_seconds, "ms")],
      ["Waiting now", count(api.waiting, "call")],
      ["Gave up", count(api.denied, "call")],
    ];
    return h("article", { class: `card${cooling > now ? " full" : ""}` },
      h("header", {}, h("h2", {}, api.name), h("span", { class: "code quiet" }, (api.limits ?? []).join(", "))),
      use(api),
      bar(document, { share: used, kind: used >= 1 ? "denied" : "used", label: `${Math.round(used * 100)}% used` }),
      cooling > now ? h("p", { class: "banned" }, `■ Cooling down until ${clock(cooling)} (${until(cooling, now)}): the API requested a pause.`) : null,
      h("dl", { class: "facts" }, facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])));
  }
  function use(api) {
    if (api.problem) return h("p", { class: "banned" }, `✕ Usage unknown: ${api.problem}`);
    const ahead = api.used > api.capacity ? `, ${number(api.used - api.capacity)} booked ahead by waiting calls` : "";
    return h("p", { class: "use" }, h("b", {}, number(Math.min(api.used, api.capacity))), ` of ${number(api.capacity)} used${ahead}`);
  }
  return { node, update, slow: true };
}
