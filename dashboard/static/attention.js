// Whether the page is visible. Over HTTP/1 a browser has six connections to a server for all its tabs, and a live page
// holds one. Hidden pages release theirs.

const AWAY = 5000; // milliseconds that a page is hidden before it counts: to go through tabs is no reason to connect again

/** shown returns when the page is not hidden. */
export async function shown() {
  while (document.hidden) await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
}

/**
 * whileShown calls f with a signal that is aborted when the page has been hidden for a while, and waits for what it returns.
 * It returns whether that is why f ended, and then nothing is wrong with whatever f threw; but an answer of the server that f
 * threw is not because of that, and goes on.
 */
export async function whileShown(f) {
  const left = new AbortController();
  let timer = 0;
  const look = () => {
    clearTimeout(timer);
    if (document.hidden) timer = setTimeout(() => left.abort(), AWAY);
  };
  document.addEventListener("visibilitychange", look);
  look();
  try {
    await f(left.signal);
  } catch (error) {
    if (!left.signal.aborted || error.status) throw error;
  } finally {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", look);
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
