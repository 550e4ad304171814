// Dialogs. Escape always means no.
import { focused, h } from "./dom.js";

const find = (id) => document.getElementById(id);

/** askToken asks for a token, and returns a promise of it, or of null. */
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
 * confirm asks before something is done: {title, text, action, choices: [[value, label]]}. It returns a promise of the
 * choice (true where there is none to make), or of null.
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

/** help shows the keys. */
export function help(keys) {
  find("keys").replaceChildren(...keys.flatMap(([key, what]) => [
    h("dt", {}, key.split(" ").map((k) => h("kbd", {}, k))),
    h("dd", {}, what),
  ]));
  find("helping").showModal();
}

/**
 * answered shows a dialog, and returns a promise of whether the answer was yes. The focus goes back to where it was, also if
 * that was painted again meanwhile.
 */
function answered(dialog) {
  const before = document.activeElement?.dataset.focus;
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    // The event comes a little later: one that finds the dialog open is of the question before.
    dialog.onclose = () => {
      if (dialog.open) return;
      if (before && document.activeElement === document.body) focused(document, before)?.focus({ preventScroll: true });
      resolve(dialog.returnValue === "ok");
    };
  });
}
