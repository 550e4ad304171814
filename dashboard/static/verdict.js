// What somebody on call wants to know first, in sentences: is the limiter healthy, and if many are denied, is it
// an attack or a mistake in a policy. Pure functions of the model.
import { count, duration, number, share, time } from "./words.js";

/** Fewer denials than this in five minutes, or a smaller share of decisions, are normal. */
const FEW = 20;
const SMALL = 0.01;
/** If three subjects make up this share of the denials, they are the cause. */
const CONCENTRATED = 0.6;
/** If three make up less than this, denials are spread. */
const SPREAD = 0.4;
/** If one policy makes up this share of denials that are spread, it is the cause. */
const ONE_POLICY = 0.7;

/** health returns {level: "good"|"watch"|"bad", word, reasons: [sentence]}. */
export function health(model, now = Date.now()) {
  const bad = [];
  const watch = [];
  const store = model.store;
  if (store && !store.up) {
    const since = time(store.down_since);
    bad.push(`The store has been unreachable${since ? ` for ${duration(now - since)}` : ""}: stint decides without it.`);
  }
  const firing = model.alerts.filter((a) => a.state === "firing");
  if (firing.length > 0) {
    const list = firing.some((a) => a.severity === "page") ? bad : watch;
    list.push(`${count(firing.length, "alert")} ${firing.length === 1 ? "is" : "are"} firing.`);
  }
  const refused = (model.state.config?.sources ?? []).filter((s) => s.error);
  if (refused.length > 0) watch.push(`The new configuration is invalid (${refused.map((s) => s.name).join(", ")}): the last valid one is in force.`);
  for (const w of store?.warnings ?? []) watch.push(w);
  if (model.sum(10).failed > 0) bad.push(`${count(model.sum(60).failed, "decision")} could not be made in the last minute.`);
  if (bad.length > 0) return { level: "bad", word: "In trouble", reasons: [...bad, ...watch] };
  if (watch.length > 0) return { level: "watch", word: "Needs a look", reasons: watch };
  return { level: "good", word: "Healthy", reasons: [] };
}

/** traffic says how much there is and how much of it is denied. */
export function traffic(model) {
  const minute = model.sum(60);
  if (model.points.length === 0) return "No decisions yet.";
  const denied = share(minute.denied, minute.decisions);
  const rate = `${number(minute.decisions / minute.seconds)} decisions/s in the last minute`;
  return denied === null ? "No decisions in the last minute." : `${rate}, ${denied === 0 ? "none" : number(denied, "share")} denied.`;
}

/**
 * cause says whether many denials look like an attack or like a mistake in a policy:
 * {kind: "quiet"|"abuse"|"policy"|"spread", text, subjects: [offender], policy: name or null}.
 */
export function cause(model) {
  const recent = model.sum(300);
  const denied = share(recent.denied, recent.decisions) ?? 0;
  if (recent.denied < FEW || denied < SMALL) {
    const text = recent.denied === 0 ? "Nobody was limited in the last five minutes." : "Few subjects are limited: the limits work as intended.";
    return { kind: "quiet", text, subjects: [], policy: null };
  }
  const { policy: found, ...kinds } = model.state.top ?? {};
  const policies = found ?? [];
  const subjects = Object.values(kinds).flatMap((list) => list ?? []).sort((a, b) => b.denied - a.denied);
  const all = Math.max(total(policies), total(subjects));
  if (all === 0) return { kind: "quiet", text: "It is not known yet whose requests are denied.", subjects: [], policy: null };
  const mine = share(total(subjects.slice(0, 3)), all);
  const policy = policies[0];
  const policyShare = policy ? share(policy.denied, total(policies)) : 0;
  if (mine >= CONCENTRATED) {
    const few = fewest(subjects, all);
    const part = number(share(total(few), all), "share");
    const text = `${count(few.length, "subject")} ${few.length === 1 ? "makes" : "make"} up ${part} of the recent denials.`
      + " That looks like an attack or a client gone wild, not like a limit that is too tight.";
    return { kind: "abuse", text, subjects: few, policy: null };
  }
  if (mine < SPREAD && policyShare >= ONE_POLICY) {
    const text = `The recent denials are spread over many subjects, and ${number(policyShare, "share")} of them come from one policy.`
      + " That looks like a limit that is too tight, not like an attack.";
    return { kind: "policy", text, subjects: [], policy: policy.subject };
  }
  const text = "The recent denials are spread over subjects and policies: no single one explains them."
    + " More traffic than usual, or an attack from many places.";
  return { kind: "spread", text, subjects: [], policy: null };
}

/** fewest returns as few subjects as make up most of the denials, and three at most. */
function fewest(subjects, all) {
  const list = [];
  for (const s of subjects.slice(0, 3)) {
    if (total(list) >= CONCENTRATED * all) break;
    list.push(s);
  }
  return list;
}

/** total adds up denials. Of a flood only a sample is sure, so that at_least says little; denied is right to a thousandth of all. */
const total = (offenders) => offenders.reduce((sum, o) => sum + o.denied, 0);
