// Dialogs. Escape always cancels.
import { bookmark, h } from "./dom.js";

const find = (id) => document.getElementById(id);

/** askToken asks for a token. Its promise resolves to the token, or to null if canceled. */
export async function askToken(wrong) {
  const dialog = find("token");
  const form = dialog.querySelector("form");
  const why = find("token-why");
  why.classList.toggle("wrong", wrong);
  if (wrong) why.textContent = "Invalid token. Try another.";
  form.reset();
  form.querySelector("[value=cancel]").onclick = () => dialog.close("cancel");
  return (await answered(dialog)) ? form.elements.token.value.trim() : null;
}

/**
 * confirm asks for confirmation of an action: {title, text, action, choices: [[value, label]]}. Its
 * promise resolves to the choice (true if there are no choices), or to null if canceled.
 */
export async function confirm({ title, text, action, choices = [] }) {
  const dialog = find("confirm");
  const form = dialog.querySelector("form");
  find("confirm-title").textContent = title;
  find("confirm-text").textContent = text;
  form.querySelector("[value=ok]").textContent = action;
  find("confirm-choice").hidden = choices.length === 0;
  form.elements.choice.replaceChildren(...choices.map(([value, label]) => new Option(label, value)));
  if (!(await answered(dialog))) return null;
  return choices.length > 0 ? form.elements.choice.value : true;
}

const DAY = "day";
const ENDS = [["1h", "in an hour"], ["tomorrow", "at the end of tomorrow"], ["7d", "in a week"], [DAY, "on a day…"]];

/**
 * askRaise asks for a higher limit: {title, limits: [{label, max}]}. Its promise resolves to
 * {index, max, until, why}, where until is a Date, or to null if canceled.
 */
export async function askRaise({ title, limits }) {
  const dialog = find("raise");
  const form = dialog.querySelector("form");
  const { limit, max, end, date, why } = form.elements;
  const suggest = () => (max.value = 2 * limits[limit.value].max || 1);
  const dated = () => {
    find("raise-date").hidden = end.value !== DAY;
    date.required = end.value === DAY;
  };
  find("raise-title").textContent = title;
  limit.replaceChildren(...limits.map((l, i) => new Option(l.label, i)));
  end.replaceChildren(...ENDS.map(([value, label]) => new Option(label, value, false, value === "tomorrow")));
  why.value = "";
  date.value = "";
  date.min = new Date(Date.now() - 60_000 * new Date().getTimezoneOffset()).toISOString().slice(0, 10);
  form.querySelector("[value=cancel]").onclick = () => dialog.close("cancel");
  limit.onchange = suggest;
  end.onchange = dated;
  suggest();
  dated();
  if (!(await answered(dialog))) return null;
  return { index: Number(limit.value), max: Number(max.value), until: endOf(end.value, date.value), why: why.value.trim() };
}

/**
 * endOf returns the end time for a choice in ENDS. Days end at midnight in the browser's time zone.
 */
function endOf(end, date, now = new Date()) {
  if (end === "1h") return new Date(now.getTime() + 3600_000);
  if (end === "7d") return new Date(now.getTime() + 7 * 86400_000);
  const day = end === DAY ? new Date(`${date}T00:00`) : now;
  return new Date(day.getFullYear(), day.getMonth(), day.getDate() + (end === DAY ? 1 : 2));
}

export function help(keys) {
  find("keys").replaceChildren(...keys.flatMap(([key, what]) => [
    h("dt", {}, key.split(" ").map((k) => h("kbd", {}, k))),
    h("dd", {}, what),
  ]));
  answered(find("helping"));
}

/**
 * answered shows a dialog. When the dialog closes, it restores the focus, even if the page has
 * redrawn the focused element. Its promise then resolves to true if the user accepted, else to
 * false.
 */
function answered(dialog) {
  const back = bookmark(document.activeElement);
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.onclose = () => {
      if (dialog.open) return; // close events arrive late: this one belongs to the previous dialog
      back();
      resolve(dialog.returnValue === "ok");
    };
  });
}
