// Functions that format numbers and times, in addition to those in chart.js.
import { clock, duration, number } from "./chart.js";

/**
 * time converts a time in JSON to milliseconds since 1970, or to null if it is missing or Go's zero
 * time.
 */
export function time(text) {
  const ms = text ? Date.parse(text) : NaN;
  return Number.isNaN(ms) || ms <= 0 ? null : ms;
}

/** count formats a number of things: "1 subject", "1,204 subjects". */
export function count(n, one, many = `${one}s`) {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}

/** moment formats a time as the time of day, or as the date if it is more than a day away. */
export function moment(ms, now = Date.now()) {
  return clock(ms, Math.abs(ms - now) > 86400_000 ? Infinity : 0);
}

/** ago formats the time that has passed since a point in time: "12 s ago". */
export function ago(ms, now = Date.now()) {
  return now - ms < 1000 ? "just now" : `${duration(whole(now - ms))} ago`;
}

/** until formats the time that remains until a point in time: "in 3 m 20 s". */
export function until(ms, now = Date.now()) {
  return ms - now < 1000 ? "now" : `in ${duration(whole(ms - now))}`;
}

/** forHowLong formats how long something has lasted: "for 12 s". */
export function forHowLong(ms, now = Date.now()) {
  return `for ${duration(Math.max(1000, whole(now - ms)))}`;
}

const whole = (ms) => Math.round(ms / 1000) * 1000;

/** retry formats a wait in seconds; -1 means never. */
export function retry(seconds) {
  if (seconds < 0) return "never";
  return seconds === 0 ? "now" : duration(seconds * 1000);
}

export function measured(value, unit) {
  if (unit === "s") return duration(Math.max(1, Math.round(value)) * 1000);
  if (unit === "count") return number(value);
  if (unit === "times") return `${number(value)}×`;
  return number(value, unit);
}

/** sentence formats an error text as a sentence. */
export function sentence(text) {
  const end = /[.!?]$/.test(text) ? "" : ".";
  return text.charAt(0).toUpperCase() + text.slice(1) + end;
}

/** tierAndPolicy names a tier and a policy: "pro / login", "pro", "login". */
export function tierAndPolicy(tier, policy) {
  return [tier, policy].filter(Boolean).join(" / ") || "–";
}

/** policyNames lists policies and tiers. Limits that the program itself defines have no name. */
export const policyNames = (names) => names.map((name) => name || "limits without a name").join(", ");

/**
 * lately describes the period that offenders cover: the last eight to ten minutes, or the time
 * since the start if that is shorter.
 */
export const lately = (model) => (model.seconds < 8 * 60 ? `since the start ${duration(Math.max(1, model.seconds) * 1000)} ago` : "in the last eight to ten minutes");

/** share returns the share of part in all, or null if all is 0. */
export const share = (part, all) => (all > 0 ? part / all : null);

export { clock, duration, number };
