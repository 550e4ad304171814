// Operator actions, each after a confirmation. All require a token, and are in the server's audit log.
import { confirm } from "./dialogs.js";
import { h } from "./dom.js";
import { count, sentence } from "./words.js";

const DURATIONS = [["10m", "10 minutes"], ["1h", "1 hour"], ["24h", "1 day"], ["168h", "7 days"]];

/** who names a subject to the server, by its ref if only that is known. */
const who = (s) => (s.ref ? { ref: s.ref } : { subject: s.subject });

/** lift ends a ban. It returns a promise of whether it succeeded. */
export function lift(app, s) {
  return ask(app, "api/unban", who(s), {
    title: `Unban ${s.subject}?`, action: "Unban",
    text: "Ends the ban immediately and clears the strikes. The usage of its limits stays.",
  });
}

/** forget resets everything that a subject has used. */
export function forget(app, s) {
  return ask(app, "api/reset", who(s), {
    title: `Reset ${s.subject}?`, action: "Reset",
    text: "Clears its usage of all limits, as if it were a new subject.",
    failed: "failed, or is incomplete",
  });
}

/** ban bans a subject for a time. */
export function ban(app, s) {
  return ask(app, "api/ban", who(s), {
    title: `Ban ${s.subject}?`, action: "Ban", choices: DURATIONS,
    text: "Denies all requests of this subject until the ban ends, on every server that shares the store.",
  });
}

/** actions are the buttons that ban and reset a subject, and what its ban has done. */
export function actions(app, s) {
  const button = (label, call) => h("button", {
    type: "button", "aria-label": `${label} ${s.subject}`, disabled: !app.model.state.writable,
    on: { click: () => call(app, s) },
  }, label);
  return h("span", { class: "acts" }, button("Ban", ban), button("Reset", forget),
    s.banned > 0 ? h("span", { class: "banned" }, matched(s.banned)) : null);
}

/** matched says what a ban has done. */
export const matched = (requests) => `The ban has matched ${count(requests ?? 0, "request")}.`;

async function ask(app, path, body, question) {
  const answer = await confirm(question);
  if (answer === null) return false;
  let done;
  try {
    done = await app.api.post(path, answer === true ? body : { ...body, for: answer });
  } catch (error) {
    app.notice(`${question.title.replace("?", "")}: ${question.failed ?? "failed"}. ${sentence(error.message)}`, true);
    return false;
  }
  app.notice(`${question.title.replace("?", "")}: done.${done.note ? ` ${done.subject}: ${done.note}.` : ""}`);
  app.refresh().catch(() => {}); // the audit list; the stream notices when the server is gone
  return true;
}
