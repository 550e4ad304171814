// Dialogs. Escape always means no.
import { bookmark, h } from "./dom.js";

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
  answered(find("helping"));
}

/**
 * answered shows a dialog, and returns a promise of whether the answer was yes. Then the focus is back where it was, even
 * if the page has redrawn that in the meantime.
 */
function answered(dialog) {
  const back = bookmark(document.activeElement);
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.onclose = () => {
      if (dialog.open) return; // the event comes a little later: this one belongs to the previous question
      back();
      resolve(dialog.returnValue === "ok");
    };
  });
}
