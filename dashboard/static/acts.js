// Operator actions. Each action asks for confirmation, requires a token, and is recorded in the
// server's audit log.
import { askRaise, confirm } from "./dialogs.js";
import { h } from "./dom.js";
import { count, sentence, tierAndPolicy } from "./words.js";

const DURATIONS = [["10m", "10 minutes"], ["1h", "1 hour"], ["24h", "1 day"], ["168h", "7 days"]];

/** who identifies a subject to the server: by its ref if there is one, else by name. */
const who = (s) => (s.ref ? { ref: s.ref } : { subject: s.subject });

/** lift ends a ban. Its promise resolves to true if the ban has ended, else to false. */
export function lift(app, s) {
  return ask(app, "api/unban", who(s), {
    title: `Unban ${s.subject}?`, action: "Unban",
    text: "Ends the ban immediately and clears the strikes. The usage of its limits stays.",
  });
}

/** forget resets all usage of a subject. */
export function forget(app, s) {
  return ask(app, "api/reset", who(s), {
    title: `Reset ${s.subject}?`, action: "Reset",
    text: "Clears its usage of all limits, as if it were a new subject.",
    failed: "failed, or is incomplete",
  });
}

export function ban(app, s) {
  return ask(app, "api/ban", who(s), {
    title: `Ban ${s.subject}?`, action: "Ban", choices: DURATIONS,
    text: "Denies all requests of this subject until the ban ends, on every server that shares the store.",
  });
}

/**
 * rule returns the name that overrides use for the policy or tier of a limit. It returns null if
 * overrides do not apply to the limit: if it belongs to Envoy, to an outbound API, or to neither a
 * policy nor a tier.
 */
const rule = (l) => (["envoy", "outbound"].includes(l.tier) ? null : l.policy || l.tier || null);

/**
 * raisable returns the limits of a subject that can be raised, without duplicates, in descending
 * order of the share that is used.
 */
export function raisable(s) {
  const all = new Map();
  const share = (l) => (l.capacity > 0 ? l.used / l.capacity : 1);
  for (const l of [...s.limits ?? []].sort((a, b) => share(b) - share(a))) {
    if (rule(l) !== null) all.set(JSON.stringify([rule(l), l.limit]), all.get(JSON.stringify([rule(l), l.limit])) ?? l);
  }
  return [...all.values()];
}

/** identity reduces a limit to its name, window and algorithm. */
const identity = (limit) => limit.replace(/(^|: )\d+\//, "$1/").replace(/ (burst|on|from|in) \S+| leased/g, "");

/**
 * raise gives a subject a higher limit until the time that the operator chooses. If the policy
 * already has an override, its other limits and its field "lower" stay unchanged.
 */
export async function raise(app, s) {
  const limits = raisable(s);
  const title = `Raise ${s.subject}?`;
  const answer = await askRaise({ title, limits: limits.map((l) => ({ label: `${l.limit}, ${tierAndPolicy(l.tier, l.policy)}`, max: l.max })) });
  if (answer === null) return false;
  const chosen = limits[answer.index];
  const before = (s.overrides ?? []).find((o) => o.policy === rule(chosen));
  const others = (before?.limits ?? []).filter((l) => identity(l) !== identity(chosen.limit));
  return post(app, "api/limits/set", {
    ...who(s), policy: rule(chosen), limits: [chosen.limit.replace(/(^|: )\d+\//, `$1${answer.max}/`), ...others],
    lower: before?.lower ?? false, until: answer.until.toISOString(), why: answer.why,
  }, title);
}

export function unset(app, s, override) {
  return ask(app, "api/limits/unset", { ...who(s), policy: override.policy }, {
    title: `Remove the override of ${s.subject}?`, action: "Remove",
    text: `The configured limits of ${override.policy} apply again. Usage stays.`,
  });
}

/**
 * actions returns the buttons that ban and reset a subject, and a sentence with the number of
 * requests that its ban has matched.
 */
export function actions(app, s) {
  const button = (label, call) => h("button", {
    type: "button", "aria-label": `${label} ${s.subject}`, disabled: !app.model.state.writable,
    on: { click: () => call(app, s) },
  }, label);
  return h("span", { class: "acts" }, button("Ban", ban), button("Reset", forget),
    s.banned > 0 ? h("span", { class: "banned" }, matched(s.banned)) : null);
}

export const matched = (requests) => `The ban has matched ${count(requests ?? 0, "request")}.`;

async function ask(app, path, body, question) {
  const answer = await confirm(question);
  if (answer === null) return false;
  return post(app, path, answer === true ? body : { ...body, for: answer }, question.title, question.failed);
}

/** post makes a change and shows a notice with the result. */
async function post(app, path, body, title, failed = "failed") {
  let done;
  try {
    done = await app.api.post(path, body);
  } catch (error) {
    app.notice(`${title.replace("?", "")}: ${failed}. ${sentence(error.message)}`, true);
    return false;
  }
  app.notice(`${title.replace("?", "")}: done.${done.note ? ` ${done.subject}: ${done.note}.` : ""}`);
  app.refresh().catch(() => {}); // updates the audit list; the stream reports a lost connection
  return true;
}
