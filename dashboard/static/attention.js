// Whether the page is visible. Over HTTP/1 a browser has six connections to a server for all its tabs, and a live page
// holds one. Hidden pages release theirs.

const AWAY = 5000; // milliseconds that a page is hidden before it counts: to go through tabs is no reason to connect again

let gone = false; // to another page; browsers keep this one, with its connections, for those who go back
window.addEventListener("pagehide", () => (gone = true));
window.addEventListener("pageshow", () => (gone = false));

/** shown returns when the page is not hidden. */
export async function shown() {
  while (gone) await next(window, "pageshow");
  while (document.hidden) await next(document, "visibilitychange");
}

const next = (target, event) => new Promise((resolve) => target.addEventListener(event, resolve, { once: true }));

/**
 * whileShown calls f with a signal that is aborted when the page has been hidden for a while or left, and waits for what it returns.
 * It returns whether that is why f ended, and then nothing is wrong with whatever f threw; but an answer of the server that f
 * threw is not because of that, and goes on.
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
 * watching polls for a view: now, and then every so many milliseconds until it is stopped. It does not poll
 * while the page is hidden or paused.
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
