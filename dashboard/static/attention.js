// Page visibility. Over HTTP/1, all tabs of a browser share six connections to a server, and a live
// page occupies one of them. Hidden pages therefore close their connection.

// AWAY is the time in milliseconds after which a hidden page disconnects. The delay avoids
// reconnecting after a short switch to another tab.
const AWAY = 5000;

// gone reports whether the user has left for another page. Browsers keep this page and its
// connections, for the back button.
let gone = false;
window.addEventListener("pagehide", () => (gone = true));
window.addEventListener("pageshow", () => (gone = false));

/** shown waits until the page is visible. */
export async function shown() {
  while (gone) await next(window, "pageshow");
  while (document.hidden) await next(document, "visibilitychange");
}

const next = (target, event) => new Promise((resolve) => target.addEventListener(event, resolve, { once: true }));

/**
 * whileShown calls f and waits for it. It passes a signal to f, and aborts the signal when the page
 * has been hidden for a while or the user leaves it. It returns whether it aborted the signal. If
 * it did, it ignores errors of f, except for an error in an answer of the server, which the abort
 * cannot have caused.
 */
export async function whileShown(f) {
  const left = new AbortController();
  const leave = () => left.abort();
  let timer = 0;
  const look = () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(leave, AWAY);
  };
  document.addEventListener("visibilitychange", look);
  window.addEventListener("pagehide", leave);
  look();
  try {
    await f(left.signal);
  } catch (error) {
    if (!left.signal.aborted || error.status) throw error;
  } finally {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", look);
    window.removeEventListener("pagehide", leave);
  }
  return left.signal.aborted;
}

/**
 * watching polls for a view. It returns two functions: now polls immediately and then once per
 * interval, and stop ends the polling. Nothing is polled while the page is hidden or paused.
 */
export function watching(app, every, ask) {
  let timer = 0;
  const stop = () => clearTimeout(timer);
  const now = async () => {
    stop();
    timer = setTimeout(now, every);
    if (!document.hidden && !app.paused) await ask();
  };
  return { now, stop };
}
