// Reports on shadow rules: the requests that the rules would deny if enforced.
import { watching } from "../attention.js";
import { sparkline } from "../chart.js";
import { columns, empty, fill, h, heading, listing, refill, say } from "../dom.js";
import { ago, count, duration, number, tierAndPolicy, share, time } from "../words.js";
import { compared, denials } from "./offenders.js";
import { subjectLink } from "./violations.js";

const EVERY = 5000;
const HIT = columns("Subject | subject", "Would have been denied | figure", "Compared with the first | wide");

export function shadow(app) {
  const status = h("p", { class: "counts", role: "status" });
  const panel = h("div", {}, empty("Loading…"));
  const node = h("section", { class: "shadow" },
    heading("Shadow", "Shadow rules count requests but do not deny them. See what they would do to live traffic before enforcing them."), status, panel);
  const watch = watching(app, EVERY, look);

  async function look() {
    try {
      const { reports } = await app.api.get("api/shadow");
      say(status, "");
      render(reports ?? []);
    } catch (error) {
      say(status, `Cannot load the reports: ${error.message}`);
    }
  }
  function render(list) {
    if (list.length === 0) {
      fill(panel, empty("No rule is in shadow. A rule with “shadow: true” shows here which subjects it would deny. “stint simulate” shows what it would have done to past traffic."));
      return;
    }
    refill(panel, h("div", { class: "reports" }, list.map(card)));
  }
  return { node, show: watch.now, hide: watch.stop };
}

function card(t) {
  const name = tierAndPolicy(t.tier, t.policy);
  const minutes = t.minutes.slice(0, -1); // the last minute is incomplete, and would look like a drop
  return h("article", { class: t.recent.denied > 0 ? "card full" : "card" },
    h("header", {}, h("h2", {}, name), h("span", { class: "code quiet" }, t.limits.join(", "))),
    h("p", { class: "summary" }, summary(t.recent, `in the last ${duration(rounded(t.recent_seconds))}`)),
    t.total.requests > t.recent.requests ? h("p", { class: "quiet" }, summary(t.total, `since it started ${ago(time(t.since) ?? 0)}`)) : null,
    t.processes > 1 ? h("p", { class: "quiet" }, `Counted by ${t.processes} processes.`) : null,
    minutes.length > 1 && minutes.some((m) => m.denied > 0) ? course(name, minutes) : null,
    t.top.length > 0 ? hit(name, t.top) : null);
}

/**
 * course draws the requests that would have been denied, by minute. It does not draw the other
 * requests: on a scale for all requests, a few denials would not be visible.
 */
function course(name, minutes) {
  const worst = minutes.reduce((a, b) => (b.denied > a.denied ? b : a));
  const label = `Would have been denied, by minute: at most ${worst.denied.toLocaleString("en")} of ${count(worst.requests, "request")}`;
  return h("figure", {},
    sparkline(document, { width: 400, height: 40, label: `${name}: ${label}`, series: [{ kind: "denied", values: minutes.map((m) => m.denied) }] }),
    h("figcaption", { class: "quiet" }, label));
}

/** summary describes what the rule would have denied, in the words that a simulation uses. */
function summary(reach, when) {
  if (reach.requests === 0) return `It matched no request ${when}.`;
  const of = `${count(reach.requests, "request")} ${when}`;
  const all = `${reach.at_least ? "at least " : reach.estimated ? "about " : ""}${count(reach.subjects, "subject")}`;
  if (reach.denied === 0) return `If this were enforced, it would have denied none of ${of}, and none of ${all}.`;
  const untouched = percent(reach.subjects - reach.hit, reach.subjects);
  return `If this were enforced, it would have denied ${reach.denied.toLocaleString("en")} of ${of} (${percent(reach.denied, reach.requests)}), ` +
    `from ${reach.at_least ? "at least " : ""}${reach.hit.toLocaleString("en")} of ${all}.` +
    (reach.at_least ? "" : ` ${untouched} of the subjects would not be affected.`);
}

/** percent formats a share with a non-breaking space before the percent sign. */
const percent = (part, all) => number(share(part, all), "share").replace(" ", "\u00a0");

/**
 * rounded converts seconds to milliseconds. It rounds durations of a minute or more to whole
 * minutes.
 */
function rounded(seconds) {
  return seconds < 60 ? Math.max(1, Math.round(seconds)) * 1000 : Math.round(seconds / 60) * 60_000;
}

const hit = (name, top) => listing(`Subjects that ${name} would have denied most`, HIT,
  top.map((o) => [subjectLink(o), denials(o), compared(o, top[0])]));
