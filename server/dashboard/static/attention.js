// Whether anybody looks at the page. Over HTTP/1 a browser has six connections to a server for all its tabs, and a page that
// listens holds one: those that nobody looks at give theirs back.

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
 * watching returns how a view asks anew: now, again every so many milliseconds, and not any more once it is stopped. Nothing is
 * asked while nobody looks, or while the page is paused.
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
