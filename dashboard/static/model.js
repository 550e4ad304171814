// The page's data: the initial state, updated by a tick each second. All lists have a maximum
// length.
import { time } from "./words.js";

const SECONDS = 15 * 60; // one-second points kept: 15 minutes
const TENS = 2 * 360; // ten-second points kept: two hours
const STEPS = 90; // ten-second steps kept of every series: 15 minutes
const VIOLATIONS = 1000;

const NOTHING = { allowed: 0, denied: 0, degraded: 0, failed: 0, shadowed: 0 };
const COUNTS = Object.keys(NOTHING);
const SUMS = [...COUNTS, "saved", "calls", "calls_failed", "carried"];
// In a ten-second point, these fields have the largest value of any of its seconds.
const LONGEST = ["p50_seconds", "p99_seconds", "store_p50_seconds", "store_p99_seconds"];

export class Model {
  points = [];
  long = [];
  series = new Map(); // the series by tier and policy
  violations = []; // newest last, each with a serial number
  unshown = 0;
  offenders = []; // subjects with the most denials in the last ten seconds
  alerts = [];
  store = null;
  surge = null; // traffic many times higher than usual, or null
  changes = []; // configuration changes in the last hour, oldest first
  processes = []; // processes that share the store, this one first; empty for a single process
  state = {}; // everything else, which changes slowly: version, config, top, outbound, audit, writable, who
  loads = 0; // number of times that load has replaced all data
  #serial = 0;
  #missed = null; // the last period without a connection, {from, to}, if violations in it are missing; else null
  #tens = null; // the current, incomplete ten-second step: {step, point}
  #phase = 0; // offset of the ten-second steps, which the server counts from its start, not from the minute
  #seconds = []; // number of known seconds in each step of the series

  /** load replaces all data with the answer of /api/state. */
  load(state) {
    const { points, long, series, violations, offenders, alerts, store, processes, changes, surge, ...rest } = state;
    const seen = this.points.at(-1)?.at * 1000 || time(this.state.now);
    this.points = (points ?? []).slice(-SECONDS);
    this.long = (long ?? []).slice(-TENS);
    this.series = new Map((series ?? []).map((s) => [key(s), { ...s, recent: pad(s.recent ?? []) }]));
    this.violations = [];
    this.#add(violations ?? []);
    if (seen && this.#oldest > seen) this.#missed = { from: seen, to: time(rest.now) };
    this.unshown = 0;
    this.offenders = offenders ?? [];
    this.alerts = alerts ?? [];
    this.store = store ?? null;
    this.processes = processes ?? [];
    this.changes = changes ?? [];
    this.surge = surge ?? null;
    this.state = rest;
    this.loads++;
    const known = Math.max(0, ...(series ?? []).map((s) => s.recent?.length ?? 0));
    this.#seconds = Array.from({ length: STEPS }, (_, i) => (i >= STEPS - known ? 10 : 0));
    const last = this.long.at(-1)?.at ?? (this.points[0]?.at ?? 1) - 1;
    this.#phase = last % 10;
    this.#tens = null;
    for (const p of this.points) if (p.at > last) this.#turn(p);
  }

  /**
   * refresh replaces the data that ticks do not update with the data in an answer of /api/state.
   */
  refresh({ points, long, series, violations, offenders, alerts, store, processes, changes, surge, ...rest }) {
    this.state = rest;
  }

  tick(tick) {
    this.points.push(tick.point);
    if (this.points.length > SECONDS) this.points.shift();
    this.#turn(tick.point);
    this.#seconds[STEPS - 1]++;
    for (const s of tick.series ?? []) this.#count(s);
    this.#add(tick.violations ?? []);
    this.unshown += tick.unshown ?? 0;
    this.offenders = tick.offenders ?? [];
    if (tick.alerts) this.alerts = tick.alerts;
    this.store = tick.store ?? this.store;
    this.processes = tick.processes ?? [];
    this.changes = tick.changes ?? [];
    this.surge = tick.surge ?? null;
  }

  /** newest is the serial number of the newest violation. Newer violations have higher numbers. */
  get newest() {
    return this.#serial;
  }

  /** seconds is the length in seconds of the period that the points cover. */
  get seconds() {
    return this.points.length > 0 ? this.points.at(-1).at - this.points[0].at + 1 : 0;
  }

  /**
   * gap is the period {from, to} in which violations may be missing; to is the time of the oldest
   * known violation. It is null if there is no such period.
   */
  get gap() {
    const oldest = this.#oldest;
    return oldest > this.#missed?.from && oldest <= this.#missed.to ? { from: this.#missed.from, to: oldest } : null;
  }

  get #oldest() {
    return time(this.violations[0]?.at);
  }

  #add(list) {
    for (const v of list) this.violations.push({ ...v, serial: ++this.#serial });
    if (this.violations.length > VIOLATIONS) this.violations.splice(0, this.violations.length - VIOLATIONS);
  }

  /**
   * turn adds the point of one second to its ten-second step. When a step is over, it begins the
   * next one, for the points and for all series.
   */
  #turn(point) {
    const step = Math.floor((point.at - 1 - this.#phase) / 10);
    if (this.#tens?.step !== step) {
      if (this.#tens) {
        this.long.push(this.#tens.point);
        if (this.long.length > TENS) this.long.shift();
      }
      this.#tens = { step, point: { at: (step + 1) * 10 + this.#phase, ...zero([...SUMS, ...LONGEST]) } };
      for (const s of this.series.values()) {
        s.recent.push({ ...NOTHING });
        s.recent.shift();
      }
      this.#seconds.push(0);
      this.#seconds.shift();
    }
    const sum = this.#tens.point;
    for (const k of SUMS) sum[k] += point[k] ?? 0;
    for (const k of LONGEST) sum[k] = Math.max(sum[k], point[k] ?? 0);
  }

  #count(second) {
    let s = this.series.get(key(second));
    if (!s) {
      s = { tier: second.tier, policy: second.policy, recent: pad([]) };
      this.series.set(key(second), s);
    }
    const last = s.recent.at(-1);
    for (const k of COUNTS) last[k] += second.recent?.[0]?.[k] ?? 0;
    s.total = second.total;
  }

  /** sum adds up the points of the given number of seconds before now. */
  sum(seconds) {
    const total = zero(SUMS);
    const from = (this.points.at(-1)?.at ?? 0) - seconds;
    let n = 0;
    for (let i = this.points.length - 1; i >= 0 && this.points[i].at > from; i--, n++) {
      for (const k of SUMS) total[k] += this.points[i][k] ?? 0;
    }
    return { ...total, seconds: Math.max(1, n), decisions: total.allowed + total.denied };
  }

  /**
   * steps adds up the recent steps of the matching series. Each step has counts, its end time, and
   * the number of seconds for which there is data. The newest step is left out while it is too
   * short to compute a rate.
   */
  steps(match) {
    const end = this.#tens?.point.at ?? this.long.at(-1)?.at ?? 0;
    const steps = pad([]).map((counts, i) => ({ ...counts, at: end - 10 * (STEPS - 1 - i), seconds: this.#seconds[i] }));
    for (const s of this.series.values()) {
      if (match(s)) s.recent.forEach((counts, i) => COUNTS.forEach((k) => (steps[i][k] += counts[k])));
    }
    return steps.filter((s, i) => s.seconds > (i === STEPS - 1 ? 2 : 0));
  }

  /** names lists the tiers or the policies of all series, in descending order of decisions. */
  names(field) {
    const totals = new Map();
    for (const s of this.series.values()) {
      if (s[field]) totals.set(s[field], (totals.get(s[field]) ?? 0) + s.total.allowed + s.total.denied);
    }
    return [...totals].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0])).map(([name]) => name);
  }
}

const zero = (keys) => Object.fromEntries(keys.map((k) => [k, 0]));
const key = (s) => JSON.stringify([s.tier, s.policy]);

/** pad extends steps to 15 minutes, with empty steps before the given ones. */
function pad(steps) {
  const list = steps.slice(-STEPS).map((s) => ({ ...NOTHING, ...s }));
  while (list.length < STEPS) list.unshift({ ...NOTHING });
  return list;
}
