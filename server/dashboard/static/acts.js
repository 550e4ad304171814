// What operators do to subjects, each after a question. All need a token, and are written to the server's audit log.
import { confirm } from "./dialogs.js";
import { sentence } from "./words.js";

const DURATIONS = [["10m", "10 minutes"], ["1h", "1 hour"], ["24h", "1 day"], ["168h", "7 days"]];

/** who names a subject to the server: by its reference if it is known only by that. */
const who = (s) => (s.ref ? { ref: s.ref } : { subject: s.subject });

/** lift ends a ban. It returns a promise of whether that was done. */
export function lift(app, s) {
  return ask(app, "api/unban", who(s), {
    title: `Unban ${s.subject}?`, action: "Unban",
    text: "Its ban ends at once, and its strikes are forgotten. What it has used of its limits stays.",
  });
}

/** forget resets all that a subject has used. */
export function forget(app, s) {
  return ask(app, "api/reset", who(s), {
    title: `Reset ${s.subject}?`, action: "Reset",
    text: "All that it has used of its limits is forgotten: it may do at once what it could do when it was new.",
    failed: "not done, or not all of it",
  });
}

/** ban denies a subject everything for a time. */
export function ban(app, s) {
  return ask(app, "api/ban", who(s), {
    title: `Ban ${s.subject}?`, action: "Ban", choices: DURATIONS,
    text: "Every request of it is denied until the ban ends, on every server that shares the store.",
  });
}

async function ask(app, path, body, question) {
  const answer = await confirm(question);
  if (answer === null) return false;
  let done;
  try {
    done = await app.api.post(path, answer === true ? body : { ...body, for: answer });
  } catch (error) {
    app.notice(`${question.title.replace("?", "")}: ${question.failed ?? "not done"}. ${sentence(error.message)}`, true);
    return false;
  }
  app.notice(`${question.title.replace("?", "")}: done.${done.note ? ` ${done.subject}: ${done.note}.` : ""}`);
  app.refresh().catch(() => {}); // the audit list; the stream tells when the server is gone
  return true;
}
