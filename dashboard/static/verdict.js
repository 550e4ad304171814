// Sentences that answer the first questions of an on-call engineer: is the limiter healthy, and if
// many requests are denied, is the cause an attack or a mistake in a policy? All functions depend
// only on their arguments, such as the model, and on the current time.
import { clock, count, duration, forHowLong, number, sentence, share, time } from "./words.js";

/**
 * Denials are normal if there are fewer than FEW in five minutes, or if their share of the
 * decisions is below SMALL.
 */
const FEW = 20;
const SMALL = 0.01;
/** If three subjects make up at least this share of the denials, they are the cause. */
const CONCENTRATED = 0.6;
/** If three subjects make up less than this share, the denials are spread. */
const SPREAD = 0.4;
/**
 * If the denials are spread and one policy makes up at least this share of them, the policy is the
 * cause.
 */
const ONE_POLICY = 0.7;

/**
 * A few subjects that cause at least this many denials per second are called an attack, unless the
 * share of their denials in all decisions is below SMALL.
 */
const ATTACK = 5;
/** Alerts about requests. All others are about the limiter itself. */
const TRAFFIC = ["BlockedShare", "DenialJump", "Spike"];
/**
 * Alerts that an outage of the store causes. Each covers the last minutes, so it may fire until
 * LINGERS after the end of the outage.
 */
const OUTAGE = ["LimiterSlow", "RedisMemory", "ScriptErrors", "ScriptSlow"];
const LINGERS = 7 * 60_000;
/**
 * If a configuration change explains the denials, subjects first denied before the change, or
 * within this time after it, are not called an attack: they may have sent as many requests before
 * the change.
 */
const SOON = 5 * 60_000;
/**
 * The time for which outages, clock steps and configuration changes are mentioned, in milliseconds.
 */
const MENTIONED = 15 * 60_000;

/**
 * health returns the health of the limiter itself: {level: "good"|"watch"|"bad", text, reasons:
 * [sentence]}.
 */
export function health(model, now = Date.now()) {
  const bad = [];
  const watch = [];
  const store = model.store;
  const down = store && !store.up;
  const what = down ? `${storeName(store)} ${store.outage?.is ?? "is down"}` : "";
  if (down) {
    const { why, fix, error } = store.outage ?? {};
    const since = time(store.down_since);
    bad.push(sentence(`${store.lost_nodes ? `a part of ${storeName(store)}` : storeName(store)} has been down${since ? ` ${forHowLong(since, now)}` : ""}: stint decides without it`));
    bad.push(...[why, fix && `Fix: ${fix}`, error && `Last error: ${error}`].filter(Boolean));
    bad.push(...withoutStore(model.state.config ?? {}));
  }
  const past = !down && store?.last_outage;
  const over = past ? now - time(past.until) : Infinity;
  const lingers = (a) => OUTAGE.includes(a.name) && over < LINGERS && time(a.since) < time(past.until) + 60_000;
  const firing = model.alerts.filter((a) => a.state === "firing" && !TRAFFIC.includes(a.name));
  const current = firing.filter((a) => !lingers(a));
  if (current.length > 0) {
    const list = current.some((a) => a.severity === "page") ? bad : watch;
    list.push(`${count(current.length, "alert")} ${current.length === 1 ? "is" : "are"} firing.`);
  }
  const refused = (model.state.config?.sources ?? []).filter((s) => s.error);
  if (refused.length > 0) watch.push(`The new configuration is invalid (${refused.map((s) => s.name).join(", ")}): the last valid one is in force.`);
  bad.push(...silent(model.processes, now));
  watch.push(...elsewhere(model.processes), ...differing(model.processes));
  for (const w of store?.warnings ?? []) watch.push(w);
  const step = store?.redis?.last_clock_step;
  if (step && now - time(step.at) < MENTIONED) watch.push(clockSet(step));
  if (model.sum(Math.min(10, over / 1000)).failed > 0) bad.push(`${count(model.sum(60).failed, "decision")} could not be made in the last minute.`);
  const recent = model.changes.filter((c) => now - time(c.at) < MENTIONED && c !== explaining(model)).map((c) => changed(c, model.processes));
  const notes = over < MENTIONED ? [wasDown(model, store, past), ...firing.filter(lingers).map((a) => `The outage raised the alert ${a.name}, which will end automatically.`)] : [];
  notes.push(...recent);
  if (down) return { level: "bad", text: sentence(`Limiter degraded: ${what}`), reasons: [...bad, ...watch, ...recent] };
  if (bad.length > 0) return { level: "bad", text: "Limiter unhealthy.", reasons: [...bad, ...watch, ...notes] };
  if (watch.length > 0) return { level: "watch", text: "Limiter needs attention.", reasons: [...watch, ...notes] };
  return { level: "good", text: "Limiter healthy.", reasons: notes };
}

function wasDown(model, store, { since, until, is }) {
  const [from, to] = [time(since), time(until)];
  const degraded = model.points.reduce((sum, p) => sum + (p.at * 1000 > from && p.at * 1000 <= to + 1000 ? p.degraded : 0), 0);
  const name = store.kind === "redis" ? "Redis" : "The store";
  return `${name} was down from ${clock(from)} to ${clock(to)}, for ${duration(Math.max(1000, Math.round((to - from) / 1000) * 1000))}: “${is}”.`
    + (degraded > 0 ? ` stint made ${count(degraded, "decision")} without it.` : "");
}

/**
 * clockSet describes by how much the clock of a Redis server was set, and the effect on windows and
 * bans.
 */
const clockSet = ({ at, server, by_seconds: by }) => `At ${clock(time(at))} the clock of Redis (${server}) was set ${by > 0 ? "ahead" : "back"} by ${duration(Math.abs(by) * 1000)}: `
  + `windows and bans that began before end ${by > 0 ? "earlier" : "later"} by the same amount. Let NTP correct clocks slowly.`;

const silent = (processes, now) => processes.filter((p) => p.silent).map((p) =>
  `The process ${p.name} has not reported ${forHowLong(time(p.heard) ?? now, now)}: it hangs, was killed, or cannot reach the store.`);

/**
 * elsewhere describes the alerts about the limiter that fire in other processes. Alerts of this
 * process have their own rows.
 */
const elsewhere = (processes) => processes.filter((p) => !p.self).map((p) => [p.name, (p.alerts ?? []).filter((a) => !TRAFFIC.includes(a))])
  .filter(([, alerts]) => alerts.length > 0).map(([name, alerts]) =>
    `In the process ${name}, ${alerts.length === 1 ? "an alert is" : "alerts are"} firing: ${alerts.join(", ")}.`);

/** differing describes which processes have a different configuration than this process. */
function differing([self, ...others]) {
  const some = others.filter((p) => !p.silent && p.config !== self.config);
  return some.length === 0 ? [] : [`${some.length === 1 ? "The process" : "The processes"} ${some.map((p) => `${p.name} (${p.config || "built in"})`).join(", ")} `
    + `${some.length === 1 ? "has" : "have"} a different configuration in force than ${self.name} (${self.config || "built in"}).`];
}

function changed({ at, what, subjects, files, source }, processes) {
  const denied = subjects > 0 ? `; ${count(subjects, "subject")} newly denied${processes.length > 1 ? " by this process" : ""}` : "";
  return `Since ${clock(time(at))}: ${what.join("; ")}${denied} (${files?.join(", ") || source}).`;
}

/** MODES describes the effect of each failure mode on requests while the store is down. */
const MODES = {
  local: "Local limits apply to", allow: "All requests are allowed for", deny: "All requests are denied for",
  error: "Requests get an error for", "": "The failure mode of the tier applies to",
};

/** withoutStore describes which failure mode applies to which tiers and policies. */
function withoutStore({ tiers = [], policies = [] }) {
  const all = [...tiers, ...policies];
  const modes = Object.keys(MODES).filter((mode) => all.some((r) => r.failure === mode));
  if (modes.length === 1) return [`${MODES[modes[0]]} all tiers and policies.`];
  const names = (list, mode, one, many) => {
    const some = list.filter((r) => r.failure === mode).map((r) => r.name);
    return some.length > 0 ? `the ${some.length === 1 ? one : many} ${some.join(", ")}` : "";
  };
  return modes.map((mode) => `${MODES[mode]} ${[names(tiers, mode, "tier", "tiers"), names(policies, mode, "policy", "policies")].filter(Boolean).join(" and ")}.`);
}

const storeName = (store) => (store?.kind === "redis" ? "Redis" : "the store");

export function traffic(model) {
  const minute = model.sum(60);
  if (model.points.length === 0) return "No decisions yet.";
  const denied = share(minute.denied, minute.decisions);
  const rate = `${number(minute.decisions / minute.seconds)} decisions/s in the last minute`;
  return denied === null ? "No decisions in the last minute." : `${rate}, ${denied === 0 ? "none" : number(denied, "share")} denied.`;
}

/**
 * explaining returns the newest configuration change that explains the denials since that change,
 * if there are recent denials.
 */
const explaining = (model) => (model.sum(300).denied > 0 ? model.changes.findLast((c) => c.explains) : undefined);

/**
 * cause explains the traffic: {kind: "quiet"|"surge"|"change"|"attack"|"abuse"|"policy"|"spread",
 * headline, text, subjects: [offender], policy: name or null}. It considers only the last ten
 * seconds to detect attacks, and the last minutes for everything else.
 */
export function cause(model) {
  const found = (kind, headline, text, rest) => ({ kind, headline, text, subjects: [], policy: null, ...rest });
  const attackers = attack(model);
  const change = explaining(model);
  const story = change && changed(change, model.processes);
  if (attackers.length > 0 && !(change && attackers.some((o) => (time(o.first) ?? 0) < time(change.at) + SOON))) {
    return found("attack", "Under attack: ",
      `A few subjects cause most denials. That looks like an attack or a broken client, not like a limit that is too low.${story ? ` ${story}` : ""}`,
      { subjects: attackers });
  }
  if (change) return found("change", "A configuration change causes denials.", `${story} If this was not intended, undo the change.`);
  const recent = model.sum(300);
  const denied = share(recent.denied, recent.decisions) ?? 0;
  if (model.surge && (recent.denied < FEW || denied < SMALL)) {
    return found("surge", model.surge.text, `The increase began at ${clock(time(model.surge.since))}. It may be an attack that stays below the limits, or a campaign.`
      + " If it causes harm, lower the limits of the tier, or add a limit that all subjects share.");
  }
  if (recent.denied === 0) return found("quiet", "No subject is limited.", "No subject was limited in the last five minutes.");
  if (recent.denied < FEW || denied < SMALL) return found("quiet", "Few subjects are limited.", "The limits work as intended.");
  const { policy: some, ...kinds } = model.state.top ?? {};
  const policies = some ?? [];
  const subjects = Object.values(kinds).flatMap((list) => list ?? []).sort((a, b) => b.denied - a.denied);
  const all = Math.max(total(policies), total(subjects));
  if (all === 0) return found("quiet", "Some subjects are limited.", "The subjects are not known yet.");
  const mine = share(total(subjects.slice(0, 3)), all);
  const policy = policies[0];
  const policyShare = policy ? share(policy.denied, total(policies)) : 0;
  if (mine >= CONCENTRATED) {
    const few = fewest(subjects, all, (s) => s.denied);
    const part = number(share(total(few), all), "share");
    const who = count(few.length, "subject");
    return found("abuse", `${who} ${few.length === 1 ? "is" : "are"} limited.`,
      `${who} ${few.length === 1 ? "makes" : "make"} up ${part} of the recent denials.`
      + " That looks like an attack or a broken client, not like a limit that is too low.", { subjects: few });
  }
  if (mine < SPREAD && policyShare >= ONE_POLICY) {
    return found("policy", "A limit may be too low.",
      `The recent denials are spread over many subjects, and ${number(policyShare, "share")} of them come from one rule, ${policy.subject}.`
      + " That looks like a limit that is too low, not like an attack.", { policy: policy.subject });
  }
  return found("spread", "Many subjects are limited.", "The recent denials are spread over subjects and policies, and no single one explains them."
    + ` ${model.surge?.text ?? "That looks like more traffic than usual, or an attack from many addresses."}`);
}

/** attack returns the few subjects that cause most denials right now, if there are many denials. */
function attack(model) {
  const now = (model.points.at(-1)?.at ?? 0) * 1000;
  const seconds = (o) => Math.min(10, Math.max(1, (now - (time(o.first) ?? 0)) / 1000));
  const few = fewest(model.offenders, model.sum(10).denied, (o) => o.rate * o.share * seconds(o));
  const perSecond = few.reduce((sum, o) => sum + o.rate * o.share, 0);
  return perSecond >= Math.max(ATTACK, (SMALL * model.sum(10).decisions) / 10) ? few : [];
}

/** pace describes the traffic of an attacker: "60 requests/s, 100% denied". */
export const pace = (o) => `${number(o.rate < 10 ? o.rate : Math.round(o.rate))} requests/s, ${number(o.share, "share")} denied`;

/**
 * fewest returns the fewest subjects, at most three, that make up most of the denials. It returns
 * none if three are not enough.
 */
function fewest(subjects, all, denials) {
  const list = [];
  let sum = 0;
  for (const s of subjects.slice(0, 3)) {
    list.push(s);
    sum += denials(s);
    if (sum >= CONCENTRATED * all) return list;
  }
  return [];
}

/**
 * total adds up the field denied, which is accurate to a thousandth of all denials. The field
 * at_least would be too low in a flood, because only a sample of the denials is counted.
 */
const total = (offenders) => offenders.reduce((sum, o) => sum + o.denied, 0);
