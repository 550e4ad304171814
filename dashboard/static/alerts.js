// Alerts that are not ok, above every view.
import { fill, h } from "./dom.js";
import { forHowLong, measured, time } from "./words.js";

/** alertRows shows those that fire, and then in a line each those that are pending. */
export function alertRows(node, alerts) {
  const shown = alerts.filter((a) => a.state !== "ok").sort((a, b) => rank(a) - rank(b));
  const rows = shown.map((a) => h("div", { class: `alert ${a.state} ${a.severity}`, "data-alert": a.name },
    h("span", { class: "glyph", "aria-hidden": "true" }, a.state === "pending" ? "○" : a.severity === "page" ? "■" : "▲"),
    h("strong", {}, a.name),
    h("span", { class: "state" }, a.state),
    h("span", { class: "value" }, `${measured(a.value, a.unit)}, ${threshold(a)}`),
    h("span", { class: "since" }, time(a.since) && a.unit !== "s" ? forHowLong(time(a.since)) : ""),
    a.state === "pending" ? null : h("span", { class: "summary" }, a.summary))); // it says what has not happened yet
  // Replace the rows only if a screen reader should read them again.
  const announced = shown.map((a) => `${a.name} ${a.state}`).join();
  if (node.dataset.announced === announced && node.children.length === rows.length) {
    rows.forEach((r, i) => fill(node.children[i], ...r.childNodes));
    return;
  }
  node.dataset.announced = announced;
  fill(node, rows);
}

/** threshold says when a pending alert fires, or what one that fires is above. */
function threshold(a) {
  const text = measured(a.threshold, a.unit);
  if (a.state !== "pending") return `threshold ${text}`;
  return a.unit === "s" ? `fires after ${text}` : `fires if it stays above ${text}`;
}

const rank = (a) => (a.state === "firing" ? 0 : 2) + (a.severity === "page" ? 0 : 1);
