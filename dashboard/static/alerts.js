// Pending and firing alerts, shown above every view, or below the verdict if the view has one.
import { fill, h } from "./dom.js";
import { forHowLong, measured, time } from "./words.js";

/** alertRows shows one row for each firing alert, followed by one row for all pending alerts. */
export function alertRows(node, alerts) {
  const shown = alerts.filter((a) => a.state !== "ok").sort((a, b) => rank(a) - rank(b));
  const firing = shown.filter((a) => a.state === "firing");
  const pending = shown.filter((a) => a.state === "pending");
  const rows = firing.map((a) => h("div", { class: `alert firing ${a.severity}`, "data-alert": a.name },
    h("span", { class: "glyph", "aria-hidden": "true" }, a.severity === "page" ? "■" : "▲"),
    h("strong", {}, a.name),
    h("span", { class: "state" }, "firing"),
    h("span", { class: "value" }, `${measured(a.value, a.unit)}, threshold ${measured(a.threshold, a.unit)}`),
    h("span", { class: "since" }, time(a.since) && a.unit !== "s" ? forHowLong(time(a.since)) : ""),
    h("span", { class: "summary" }, a.summary)));
  if (pending.length > 0) { // pending alerts are shown without their summaries
    rows.push(h("div", { class: "alert pending" },
      h("span", { class: "glyph", "aria-hidden": "true" }, "○"),
      h("span", { class: "state" }, "pending"),
      pending.map((a) => h("span", { "data-alert": a.name },
        h("strong", {}, a.name), " ", h("span", { class: "value" }, `${measured(a.value, a.unit)}, ${threshold(a)}`)))));
  }
  // Replace the rows only if a screen reader should read them again.
  const announced = shown.map((a) => `${a.name} ${a.state}`).join();
  if (node.dataset.announced === announced && node.children.length === rows.length) {
    rows.forEach((r, i) => fill(node.children[i], ...r.childNodes));
    return;
  }
  node.dataset.announced = announced;
  fill(node, rows);
}

function threshold(a) {
  const text = measured(a.threshold, a.unit);
  return a.unit === "s" ? `fires after ${text}` : `fires if it stays above ${text}`;
}

const rank = (a) => (a.severity === "page" ? 0 : 1);
