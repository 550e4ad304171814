// Operator actions.
import { columns, empty, fill, h, heading, listing, refill } from "../dom.js";
import { moment, time } from "../words.js";
import { subjectLink } from "./violations.js";

const COLUMNS = columns("Time | time", "Operator", "Action", "Subject | subject", "Result");

export function audit(app) {
  const panel = h("div");
  const node = h("section", { class: "audit" },
    heading("Audit", "Changes by operators since the server started, such as resets and bans. They are also in the server's log."), panel);
  function update() {
    const list = app.model.state.audit ?? [];
    if (list.length === 0) {
      fill(panel, empty("No operator actions since the server started."));
      return;
    }
    refill(panel, listing("Operator actions, newest first", COLUMNS,
      list.toReversed().map((a) => [moment(time(a.at)), a.who || "–", a.what, subjectLink(a), a.result])));
  }
  return { node, update, slow: true };
}
