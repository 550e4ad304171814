// The health strip: store, breaker, processes, configuration, alerts and memory, each as a word and
// a detail.
import { ago, clock, count, forHowLong, number, time } from "./words.js";

/** cells returns [{name, level: "good"|"watch"|"bad", word, detail}]. */
export function cells(model, now = Date.now()) {
  return [store(model, now), breaker(model), processes(model), configuration(model, now), alerts(model), memory(model)].filter(Boolean);
}

function store({ store: s, points }, now) {
  if (!s) return { name: "Store", level: "watch", word: "unknown", detail: "" };
  const p99 = 1000 * points.at(-1)?.store_p99_seconds;
  if (!s.up) {
    const since = time(s.down_since);
    return { name: "Store", level: "bad", word: "down", detail: listed(since && forHowLong(since, now), s.last_error) };
  }
  const speed = p99 > 0 ? `, p99 ${number(p99, "ms")}` : "";
  return { name: "Store", level: s.warnings?.length > 0 ? "watch" : "good", word: "up", detail: `${s.name || s.kind}${speed}` };
}

function breaker({ store: s, points }) {
  const degraded = points.slice(-10).reduce((sum, p) => sum + p.degraded, 0);
  if (!s?.breaker) return { name: "Breaker", level: "good", word: "not needed", detail: "in-process store" };
  const rate = number(degraded / Math.min(10, points.length || 1), "/s");
  const detail = listed(degraded > 0 ? `${rate} degraded decisions` : "no degraded decisions", s.instances && count(s.instances, "instance"));
  return { name: "Breaker", level: s.breaker === "closed" ? "good" : "bad", word: s.breaker, detail };
}

/**
 * processes describes how many processes report, and which one serves this page. If some are
 * silent, it names them instead.
 */
function processes({ processes: all }) {
  if (all.length < 2) return null;
  const silent = all.filter((p) => p.silent);
  const word = silent.length > 0 ? `${silent.length} of ${all.length} silent` : `${all.length} report`;
  const detail = silent.length > 0 ? silent.map((p) => p.name).join(", ") : `all together; this is ${all[0].name}`;
  return { name: "Processes", level: silent.length > 0 ? "bad" : "good", word, detail };
}

function configuration({ state }, now) {
  const phase = state.config?.phase;
  const sources = state.config?.sources ?? [];
  const refused = sources.filter((s) => s.error);
  if (refused.length > 0) return { name: "Configuration", level: "watch", word: "invalid", detail: `${refused.map((s) => s.name).join(", ")}: see Limits` };
  const looked = Math.max(0, ...sources.map((s) => time(s.looked_at) ?? 0));
  const ready = !phase || phase === "ready";
  const detail = looked > 0 ? `checked ${ago(looked, now)}` : "built into the program";
  return { name: "Configuration", level: ready ? "good" : "watch", word: ready ? "in force" : phase, detail };
}

function alerts({ alerts: list }) {
  const firing = list.filter((a) => a.state === "firing");
  const pending = list.filter((a) => a.state === "pending");
  const names = (some) => some.map((a) => a.name).join(", ");
  if (firing.length > 0) {
    const level = firing.some((a) => a.severity === "page") ? "bad" : "watch";
    return { name: "Alerts", level, word: `${firing.length} firing`, detail: names(firing) };
  }
  if (pending.length > 0) return { name: "Alerts", level: "watch", word: `${pending.length} pending`, detail: names(pending) };
  return { name: "Alerts", level: "good", word: "none", detail: `${count(list.length, "condition")} checked` };
}

/**
 * memory describes the memory usage of a store, if known. While the store is down, this is the last
 * known usage.
 */
function memory({ store: s }) {
  const old = s && !s.up && time(s.at) ? `as of ${clock(time(s.at))}` : "";
  if (s?.redis) {
    const r = s.redis;
    const evicts = r.maxmemory_policy && r.maxmemory_policy !== "noeviction";
    return {
      name: "Memory", word: amount(r.used_memory, r.max_memory),
      level: old || nearly(r.used_memory, r.max_memory) || evicts || r.evicted_keys > 0 ? "watch" : "good",
      detail: listed(
        old,
        `${number(r.ops_per_second)} commands/s`,
        r.evicted_keys > 0 && `${number(r.evicted_keys)} keys evicted`,
        evicts && `evicts keys (${r.maxmemory_policy})`),
    };
  }
  if (!s?.bytes && !s?.subjects) return null;
  const level = nearly(s.bytes, s.max_bytes) ? "watch" : "good";
  return { name: "Memory", word: amount(s.bytes ?? 0, s.max_bytes), level, detail: count(s.subjects ?? 0, "subject") };
}

const amount = (used, most) => number(used, "B") + (most > 0 ? ` of ${number(most, "B")}` : "");
const nearly = (used, most) => most > 0 && used / most > 0.9;
const listed = (...parts) => parts.filter(Boolean).join(", ");
