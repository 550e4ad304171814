// Bans in force.
import { lift } from "../acts.js";
import { watching } from "../attention.js";
import { columns, empty, fill, h, heading, listing, refill, say } from "../dom.js";
import { clock, count, moment, sentence, time, until } from "../words.js";
import { subjectLink } from "./violations.js";

const EVERY = 5000;
const MOST = 200;
const COLUMNS = columns("Subject | subject", "Ends", "End time", "Bans in a row | figure", "Strikes | figure", "Matched", "Action");

export function bans(app) {
  const status = h("p", { class: "counts", role: "status" });
  const panel = h("div", { tabindex: "-1" }, empty("Loading…"));
  const node = h("section", { class: "bans" },
    heading("Bans", "Subjects whose requests are all denied until their ban ends. To ban a subject, press Ban on its page or in Offenders."), status, panel);
  const watch = watching(app, EVERY, look);
  let listed = 0; // the time at which the list was loaded; 0 if there is no list

  async function look() {
    try {
      const { bans } = await app.api.get(`api/bans?n=${MOST}`);
      render(bans ?? []);
    } catch (error) {
      say(status, listed ? `List as of ${clock(listed)}. ${sentence(error.message)}` : "");
      if (!listed) fill(panel, empty(sentence(`Cannot load the bans: ${error.message}`)));
    }
  }
  function render(list) {
    listed = Date.now();
    say(status, list.length === 0 ? "" : `${list.length >= MOST ? "At least " : ""}${count(list.length, "ban")} in force, longest first`);
    if (list.length === 0) {
      refill(panel, empty("No subject is banned. Repeated denials lead to a ban if “bans” is configured, and operators can ban a subject."));
      return;
    }
    const now = Date.now();
    refill(panel, listing("Bans in force", COLUMNS, list.map((b) => [
      subjectLink(b), until(time(b.until), now), moment(time(b.until), now), b.level > 0 ? String(b.level) : "by an operator", String(b.strikes),
      count(b.matched ?? 0, "request"),
      h("button", {
        type: "button", "aria-label": `Unban ${b.subject}`, disabled: app.model.state.writable === false,
        on: { click: () => unban(b) },
      }, "Unban"),
    ])));
  }
  async function unban(b) {
    if (await lift(app, b)) watch.now();
  }
  return { node, show: watch.now, hide: watch.stop };
}
