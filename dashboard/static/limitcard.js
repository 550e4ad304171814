// A limit of a subject: its usage, its window on a timeline, and its charges.
import { bar, windowLine } from "./chart.js";
import { columns, h, listing } from "./dom.js";
import { clock, count, duration, number, tierAndPolicy, time } from "./words.js";

const LISTED = 50; // maximum number of charges listed as text
const CHARGES = columns("Charged at | time", "Units | figure", "Expires | time");

/**
 * full reports whether a limit has no room left and denies requests. A limit in shadow never
 * denies.
 */
export const full = (limit) => limit.used >= limit.capacity && !limit.shadow;

/**
 * limitCard draws the state of a limit at the time now, with the given width in pixels. unfolded
 * holds the names of the limits whose charges are shown.
 */
export function limitCard(limit, now, width, unfolded) {
  const used = limit.capacity > 0 ? limit.used / limit.capacity : 1;
  const label = `${limit.limit}: ${limit.used} of ${limit.capacity} used`;
  const entries = limit.entries?.map((e) => ({ at: time(e.at), until: time(e.until), units: e.units })) ?? [];
  return h("article", { class: `card${full(limit) ? " full" : ""}` },
    h("header", {}, h("h3", { class: "code" }, limit.limit), h("span", { class: "quiet" }, whose(limit))),
    h("p", { class: "use" },
      h("b", {}, number(limit.used)), ` of ${number(limit.capacity)} used, ${number(limit.remaining)} left`,
      limit.held > 0 ? `, ${number(limit.held)} of them held until they are settled` : null,
      limit.reset_after_seconds <= 0 ? null : `, fully reset in ${duration(limit.reset_after_seconds * 1000)}`),
    limit.notify ? h("p", { class: "quiet notify" }, thresholds(limit)) : null,
    bar(document, { share: used, kind: full(limit) ? "denied" : "used", label }),
    windowLine(document, {
      label, now, width, entries, used: limit.used, capacity: limit.capacity,
      window: limit.window_seconds * 1000, resetAfter: limit.reset_after_seconds * 1000, retryAfter: limit.retry_after_seconds * 1000,
      steady: limit.algorithm === "bucket",
      rate: limit.algorithm === "sliding" && limit.capacity > limit.max ? limit.max / (limit.window_seconds * 1000) : 0,
      logged: (limit.left_out ?? 0) + (limit.held ?? 0) + entries.reduce((sum, e) => sum + e.units, 0),
    }),
    entries.length > 0 ? charges(limit, entries, unfolded) : null);
}

/**
 * thresholds lists the percentages of a limit at which its usage is reported: those already
 * reached, and then all others.
 */
function thresholds({ notify, used, max }) {
  const reached = (n) => 100 * used >= n * max;
  const list = (found) => found.map((n) => `${n}%`).join(", ");
  const [done, next] = [list(notify.filter(reached)), list(notify.filter((n) => !reached(n)))];
  return `Thresholds: ${[done ? `${done} reached` : "", next ? `${next} not reached` : ""].filter(Boolean).join(", ")}`;
}

/** whose describes the origin and the kind of a limit. */
export function whose(limit) {
  return [
    tierAndPolicy(limit.tier, limit.policy) + (limit.scope ? `, in ${limit.scope}` : "") + (limit.divided ? " (counted in parts, not all shown)" : ""),
    limit.configured ? `override, configured ${limit.configured}` : "", limit.claim ? `or as set by the claim ${limit.claim} of a request` : "", limit.costs ? "costs" : "", limit.algorithm, limit.shadow ? "shadow: not enforced" : "",
  ].filter(Boolean).join(" · ");
}

function charges(limit, entries, unfolded) {
  const name = JSON.stringify([limit.tier, limit.policy, limit.scope, limit.limit]);
  const toggle = (event) => (event.target.open ? unfolded.add(name) : unfolded.delete(name));
  const what = entries.every((e) => e.at === null) ? `${count(entries.length, "place")} held` : count(entries.length, "charge");
  const list = listing("Charges, newest first", CHARGES,
    entries.slice(-LISTED).reverse().map((e) => [e.at === null ? "held" : clock(e.at), String(e.units), clock(e.until)]));
  return h("details", { open: unfolded.has(name), on: { toggle } },
    h("summary", {}, what, limit.left_out > 0 ? `, and ${count(limit.left_out, "unit")} in older charges` : null),
    list, entries.length > LISTED ? h("p", { class: "quiet" }, `Showing the newest ${LISTED} of ${entries.length}.`) : null);
}
