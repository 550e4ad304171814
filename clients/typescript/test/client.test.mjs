// Tests the client against two real servers that share a real Redis.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { Stint, StintError } from "../dist/index.js";
import { freePort, startRedis, startStint, token, until } from "./servers.mjs";

// The servers that all tests but those of failures share.
const cleanups = [];
const shared = { after: (f) => cleanups.unshift(f) };
let servers, url;
before(async () => {
  const redis = await startRedis(shared);
  servers = [await startStint(shared, { redis }), await startStint(shared, { redis })];
  url = servers.map((s) => s.url);
});
after(async () => {
  for (const f of cleanups) await f();
});

const client = (options = {}) => new Stint({ url, token, timeout: 10_000, onFailure: "throw", ...options });
let users = 0;
const someone = () => `user:${++users}`;

test("take, peek, and a denial", async () => {
  const subject = someone();
  const [one, two] = url.map((u) => client({ url: u, denyCache: 0 }));
  assert.equal((await one.take({ subject, tier: "free" })).allowed, true);
  assert.equal((await two.take({ subject, tier: "free" })).limits[0].used, 2);
  const denied = await one.take({ subject, tier: "free" });
  assert.equal(denied.allowed, false);
  assert.ok(denied.retry_after_seconds > 3000);
  assert.ok(Number(denied.headers["Retry-After"]) > 3000);
  assert.equal(denied.headers["X-RateLimit-Limit"], "2");
  assert.equal(denied.headers["X-RateLimit-Policy"], "free");
  assert.equal((await two.peek({ subject, tier: "free" })).allowed, false);
  const several = await one.take({ subject: someone(), tier: "free", and: [{ subject, policy: "search" }] });
  assert.deepEqual(several.limits.map((l) => l.policy), ["free", "free", "search"]);
});

test("a denial is remembered until it ends, or until something is given back", async () => {
  let calls = 0;
  const stint = client({ fetch: (...args) => (calls++, fetch(...args)) });
  const request = { subject: someone(), limits: ["1/1h"] };
  const first = await stint.take(request);
  for (let i = 0; i < 5; i++) assert.equal((await stint.take(request)).allowed, false);
  assert.equal(calls, 2);
  const other = { ...request, subject: someone() };
  assert.equal((await stint.take(other)).allowed, true);
  assert.deepEqual(await stint.refund(first), { changed: true });
  assert.equal((await stint.take(request)).allowed, true);
  const short = { subject: someone(), limits: ["1/200ms"] };
  await stint.take(short);
  await until("the denial has ended", async () => (await stint.take(short)).allowed);
  const few = client({ denyCache: 2 });
  for (let i = 0; i < 10; i++) await few.take({ subject: someone(), limits: ["0/1h"] });
});

test("a denial that may end at any time is not remembered", async () => {
  const request = { subject: someone(), policy: "slots" };
  const [one, two] = [client(), client()];
  const place = await one.take(request);
  assert.equal((await two.take(request)).allowed, false);
  assert.deepEqual(await one.release(place), { changed: true });
  const next = await two.take(request);
  assert.equal(next.allowed, true);
  await two.release(next);
});

test("a denial that was on its way while something was given back is not remembered", async () => {
  const request = { subject: someone(), limits: ["1/1h"] };
  let late, arrive, answered;
  const stint = client({ fetch: async (...args) => {
    const arrival = late;
    const response = await fetch(...args);
    answered = true;
    await arrival;
    return response;
  } });
  const first = await stint.take(request);
  late = new Promise((resolve) => (arrive = resolve));
  answered = false;
  const denied = stint.take(request);
  await until("the server has answered", () => answered);
  late = undefined;
  await stint.refund(first);
  arrive();
  assert.equal((await denied).allowed, false);
  assert.equal((await stint.take(request)).allowed, true);
});

test("a denial that is remembered is as of now", async (t) => {
  const limits = [{ reset_after_seconds: 90, retry_after_seconds: 60 }, { reset_after_seconds: null, retry_after_seconds: 5 }];
  const headers = { "Retry-After": "60", "X-RateLimit-Reset": "60", RateLimit: '"a";r=0;t=60', "X-RateLimit-Limit": "2" };
  const denial = { allowed: false, cacheable: true, retry_after_seconds: 60, limits };
  const stint = client({ fetch: async () => Response.json(denial, { headers }) });
  let now = Date.now();
  t.mock.method(Date, "now", () => now);
  await stint.take({ subject: "a", tier: "free" });
  now += 10_500;
  const answer = await stint.take({ subject: "a", tier: "free" });
  assert.equal(answer.retry_after_seconds, 49.5);
  assert.deepEqual(answer.headers, { "Retry-After": "50", "X-RateLimit-Limit": "2" });
  assert.deepEqual(answer.limits, [{ reset_after_seconds: 79.5, retry_after_seconds: 49.5 }, { reset_after_seconds: null, retry_after_seconds: 0 }]);
});

for (const id of [undefined, null]) test(`a retry is charged once, with the id ${id}`, async () => {
  const subject = someone();
  let calls = 0;
  // The first answer is lost after the server has charged the request.
  const lossy = async (...args) => {
    const response = await fetch(...args);
    if (++calls === 1) throw new TypeError("the connection was reset");
    return response;
  };
  const answer = await client({ fetch: lossy }).take({ subject, limits: ["5/1h"], id });
  assert.equal(calls, 2);
  assert.equal(answer.repeat, true);
  assert.equal(answer.limits[0].used, 1);
});

test("settle, hold and heartbeats", async () => {
  let beats = 0;
  const stint = client({ fetch: async (u, init) => {
    const response = await fetch(u, init);
    if (u.endsWith("/v1/extend") && response.ok) beats++;
    return response;
  } });
  const request = { subject: someone(), limits: ["tokens: 100/1h"], costs: { tokens: 60 } };
  const held = await stint.hold({ ...request, hold_seconds: 4 });
  assert.equal(held.allowed, true);
  held.used({ tokens: 20 });
  await until("heartbeats were answered", () => beats >= 4); // it would have expired
  assert.equal((await client().peek(request)).limits[0].used, 60);
  assert.deepEqual(await held.settle({ tokens: 30 }), { changed: true, charged: 30 });
  assert.equal((await stint.peek(request)).limits[0].used, 30);
  const minute = await stint.hold({ ...request, subject: someone(), hold_seconds: undefined });
  assert.equal(minute.decision.hold_seconds, 60);
  await minute.release();
  const place = await stint.take({ subject: someone(), policy: "slots" });
  assert.deepEqual(await stint.extend(place), { changed: true });
  assert.deepEqual(await stint.release(place), { changed: true });
  assert.deepEqual(await stint.release({ charge: "" }), { changed: false });
});

test("wait has a place in line, and gives it back", async () => {
  const stint = client();
  const start = Date.now();
  const turns = await Promise.all(Array.from({ length: 6 }, (_, i) => client({ url: url[i % 2] }).wait({ api: "igdb" })));
  assert.ok(turns.every((turn) => turn.allowed));
  assert.ok(Date.now() - start >= 950, "six calls, four a second");
  const limits = ["1/25s"];
  const subject = someone();
  await stint.take({ subject, limits });
  const late = await stint.wait({ subject, limits }, { timeout: 5000 });
  assert.equal(late.allowed, false);
  assert.ok(late.retry_after_seconds > 20);
  const stop = new AbortController();
  const waiting = stint.wait({ subject, limits }, { signal: stop.signal });
  await until("a place is booked", async () => (await stint.peek({ subject, limits })).limits[0].used === 2);
  stop.abort(new Error("enough"));
  await assert.rejects(waiting, /enough/);
  await until("the place is given back", async () => (await stint.peek({ subject, limits })).limits[0].used === 1);
});

test("wait joins the line before a turn that is far ahead", async (t) => {
  const turns = [1e9, 60, 0];
  const answer = async () => {
    const seconds = turns.shift();
    return Response.json({ allowed: seconds === 0, retry_after_seconds: seconds });
  };
  const pauses = [];
  const { setTimeout: real } = globalThis;
  t.mock.method(globalThis, "setTimeout", (f, ms, ...args) => {
    if (ms < 30_000 || (ms > 40_000 && ms <= 42_000)) return real(f, ms, ...args); // 42 s: the time of a call
    pauses.push(ms);
    return real(f, 0);
  });
  assert.equal((await client({ fetch: answer }).wait({ api: "igdb" })).allowed, true);
  assert.deepEqual(pauses, [2 ** 31 - 1, 35_000]);
});

test("wait asks again while no server decides, and then denies", async (t) => {
  const { setTimeout: real } = globalThis;
  t.mock.method(globalThis, "setTimeout", (f, ms, ...args) => real(f, ms === 1000 ? 0 : ms, ...args));
  let failures = 5;
  const flaky = async (u, init) => {
    if (failures-- > 0) throw new TypeError("no network");
    return fetch(u, init);
  };
  assert.equal((await client({ fetch: flaky, onFailure: undefined }).wait({ api: "igdb" })).allowed, true);
  assert.ok(failures < 0);
  const nowhere = { url: `http://127.0.0.1:${await freePort()}` };
  const wait = (onFailure) => client({ ...nowhere, onFailure }).wait({ api: "igdb" }, { timeout: 50 });
  for (const mode of [undefined, "deny", "allow"]) {
    const answer = await wait(mode);
    assert.deepEqual([answer.allowed, answer.failed.status], [mode === "allow", 0]);
  }
  await assert.rejects(wait("throw"), StintError);
  const longest = client({ ...nowhere, onFailure: undefined }).wait({ api: "igdb", max_wait_seconds: 0.05 });
  assert.equal((await longest).allowed, false);
  const stranger = await client({ token: "wrong" + token, onFailure: undefined }).wait({ api: "igdb" });
  assert.deepEqual([stranger.allowed, stranger.failed.status], [false, 401]);
});

test("wait asks another server after one that hangs", async (t) => {
  const { setTimeout: real } = globalThis;
  t.mock.method(globalThis, "setTimeout", (f, ms, ...args) => real(f, ms === 1000 ? 0 : ms > 30_000 ? 20 : ms, ...args));
  const asked = [];
  const answer = (u, { signal }) => {
    asked.push(new URL(u).hostname);
    if (asked.length > 1) return Promise.resolve(Response.json({ allowed: true }));
    return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  };
  const stint = client({ url: ["http://hangs", "http://answers"], fetch: answer, onFailure: undefined });
  assert.equal((await stint.wait({ api: "igdb" })).allowed, true);
  assert.deepEqual(asked, ["hangs", "answers"]);
});

test("a pause of an API", async () => {
  assert.deepEqual(await client().cooldown("igdb", 0.05), { paused_seconds: 0.05 });
  await assert.rejects(client({ onFailure: "allow" }).cooldown("igd", 1), { status: 400 });
});

test("an unexpected answer is a failure, and keeps its status", async () => {
  const text = (status, body) => async () => new Response(body, { status });
  for (const [status, body, message] of [[200, '{"hello":1}'], [200, '{"allowed":1}'], [200, "null"], [200, "<html>"], [502, "<html>"],
    [502, "null"], [403, "{}"], [403, '{"message":"No.","mistakes":[]}', "stint: No."]]) {
    const stint = client({ fetch: text(status, body), onFailure: "deny" });
    const answer = await stint.take({ subject: "a", tier: "free" });
    assert.deepEqual([answer.allowed, answer.failed.status], [false, status], body);
    assert.equal(answer.failed.message, message ?? `stint: an unexpected answer with the status ${status}`);
    await assert.rejects(stint.settle("CHARGE", 1), { status });
  }
});

test("mistakes are thrown in every mode, and a wrong token is a failure", async () => {
  for (const onFailure of ["allow", "deny", "throw"]) {
    await assert.rejects(client({ onFailure }).take({ subject: "a", tier: "fre" }), (err) => {
      assert.ok(err instanceof StintError);
      assert.equal(err.status, 400);
      assert.match(err.message, /tier: .*did you mean "free"/);
      return true;
    });
  }
  const answer = await client({ token: "wrong" + token, onFailure: "allow" }).take({ subject: "a", tier: "free" });
  assert.equal(answer.allowed, true);
  assert.equal(answer.failed.status, 401);
  assert.throws(() => new Stint({ url: [] }), StintError);
});

test("a token is not for browsers", () => {
  globalThis.window = globalThis.document = {};
  try {
    assert.throws(() => new Stint({ url, token }), /browser/);
    new Stint({ url });
  } finally {
    delete globalThis.window;
    delete globalThis.document;
  }
});

test("no server, in every failure mode", async () => {
  const nowhere = { url: `http://127.0.0.1:${await freePort()}` };
  const request = { subject: "a", tier: "free" };
  const allowed = await client({ ...nowhere, onFailure: "allow" }).take(request);
  assert.deepEqual([allowed.allowed, allowed.degraded, allowed.charge], [true, true, ""]);
  assert.equal(allowed.failed.status, 0);
  const denied = await client({ ...nowhere, onFailure: "deny" }).take(request);
  assert.deepEqual([denied.allowed, denied.headers["Retry-After"]], [false, "1"]);
  await assert.rejects(client(nowhere).take(request), StintError);
  const times = { timeout: undefined, onFailure: "deny", url: Array(3).fill(nowhere.url) };
  for (const timeout of [undefined, 0.5, -1, 1e10]) { // of three servers, each has a third of it
    assert.equal((await client({ ...times, timeout }).take(request)).failed.status, 0);
  }
  await assert.rejects(client({ ...nowhere, onFailure: "allow" }).settle("CHARGE", 1), StintError);
});

test("a server that hangs does not keep a decision longer than its time", async (t) => {
  setFlagsFromString("--expose-gc"); // a signal that Node may free does not end a call
  const collect = setInterval(runInNewContext("gc"), 10);
  t.after(() => clearInterval(collect));
  const hanging = createServer(() => {}).listen(0, "127.0.0.1");
  t.after(() => (hanging.closeAllConnections(), hanging.close()));
  await new Promise((resolve) => hanging.once("listening", resolve));
  const slow = `http://127.0.0.1:${hanging.address().port}`;
  const answer = await client({ url: slow, timeout: 50, onFailure: "deny" }).take({ subject: "a", tier: "free" });
  assert.equal(answer.allowed, false);
  assert.match(answer.failed.message, /no answer in time/);
  assert.equal(answer.failed.cause.name, "TimeoutError");
  // Of several, another one answers, and is asked first from then on.
  let asked = [];
  const both = client({ url: [slow, ...url], timeout: 6000, fetch: (u, init) => (asked.push(u), fetch(u, init)) });
  assert.equal((await both.take({ subject: someone(), tier: "free" })).allowed, true);
  asked = [];
  await both.take({ subject: someone(), tier: "free" });
  assert.equal(asked.length, 1);
});

test("a server that is killed, and one that stops, while callers ask and wait", async (t) => {
  const redis = await startRedis(t);
  const [one, two] = [await startStint(t, { redis }), await startStint(t, { redis })];
  const stint = client({ url: [one.url, two.url] });
  const subject = someone();
  const limits = ["1/8s"];
  await stint.take({ subject, limits });
  const waiting = stint.wait({ subject, limits });
  await until("a place is booked", async () => (await stint.peek({ subject, limits })).limits[0].used === 2);
  await one.end("SIGTERM"); // it answers that it stops, and the other is asked
  assert.equal((await waiting).allowed, true);
  assert.equal((await stint.take({ subject: someone(), tier: "free" })).allowed, true);
  const three = await startStint(t, { redis });
  const other = client({ url: [two.url, three.url] });
  await other.take({ subject: someone(), tier: "free" });
  await two.end("SIGKILL");
  assert.equal((await other.take({ subject: someone(), tier: "free" })).allowed, true);
});

test("Redis is killed: the server's failure mode decides, or the client's", async (t) => {
  const redis = await startRedis(t);
  const denies = await startStint(t, { redis, mode: "deny" });
  const local = await startStint(t, { redis, mode: "local" });
  await client({ url: denies.url }).take({ subject: someone(), tier: "free" });
  await redis.end("SIGKILL");
  const allowed = await client({ url: denies.url, onFailure: "allow" }).take({ subject: someone(), tier: "free" });
  assert.deepEqual([allowed.allowed, allowed.failed.status], [true, 503]);
  await assert.rejects(client({ url: denies.url }).take({ subject: someone(), tier: "free" }), /store is unavailable/);
  const degraded = await client({ url: local.url }).take({ subject: someone(), tier: "free" });
  assert.deepEqual([degraded.allowed, degraded.degraded, degraded.failed], [true, true, undefined]);
});
