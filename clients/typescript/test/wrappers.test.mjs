// Tests the wrappers and the example against a real server. next and hono are not installed: their handlers are
// functions of Request, and of a small context.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, get } from "node:http";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { Stint } from "../dist/index.js";
import { rateLimit } from "../dist/express.js";
import { honoRateLimit, withHeaders, withRateLimit } from "../dist/fetch.js";
import { freePort, startRedis, startStint, token, until } from "./servers.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const cleanups = [];
const shared = { after: (f) => cleanups.unshift(f) };
let redis, stint;
before(async () => {
  redis = await startRedis(shared);
  const server = await startStint(shared, { redis });
  stint = new Stint({ url: server.url, token, timeout: 10_000, onFailure: "throw" });
});
after(async () => {
  for (const f of cleanups) await f();
});

const request = (path, init) => new Request(`https://example.com${path}`, init);

test("a fetch handler: headers on every response, and the server's body on a denial", async () => {
  const handler = withRateLimit((_request, env) => new Response(`hello ${env}`, { headers: { "X-Own": "1" } }),
    { stint, claims: () => ({ user: "fetch" }) });
  for (let left = 1; left >= 0; left--) {
    const response = await handler(request("/things?q=1"), "you");
    assert.equal(response.status, 200);
    assert.equal(await response.text(), "hello you");
    assert.equal(response.headers.get("X-Own"), "1");
    assert.equal(response.headers.get("X-RateLimit-Remaining"), String(left));
  }
  const denied = await handler(request("/things"), "you");
  assert.equal(denied.status, 429);
  assert.equal(denied.headers.get("Content-Type"), "application/json");
  assert.ok(Number(denied.headers.get("Retry-After")) > 3000);
  const body = await denied.json();
  assert.deepEqual([body.error, body.policy, body.tier, body.contact], ["rate_limited", "free", "free", "sales@example.com"]);
  assert.equal(body.denial, denied.headers.get("X-RateLimit-Denial"));
  assert.equal(String(body.retry_after_seconds), denied.headers.get("Retry-After"));
});

test("a fetch handler by subject, and one that is not limited", async () => {
  const handler = withRateLimit(() => new Response("ok"), {
    stint, ask: (r) => (r.method === "POST" ? { subject: "user:ask", policy: "search" } : undefined),
  });
  for (let i = 0; i < 5; i++) assert.equal((await handler(request("/"))).status, 200);
  const statuses = [];
  for (let i = 0; i < 4; i++) statuses.push((await handler(request("/", { method: "POST" }))).status);
  assert.deepEqual(statuses, [200, 200, 200, 429]);
});

test("a response that cannot be copied passes unchanged", () => {
  const error = Response.error();
  assert.equal(withHeaders(error, { headers: { "X-RateLimit-Limit": "2" } }), error);
});

test("Hono", async () => {
  const middleware = honoRateLimit({ stint, peer: () => "203.0.113.9" });
  const context = () => {
    const headers = {};
    return { headers, req: { raw: request("/") }, header: (name, value) => (headers[name] = value) };
  };
  let served = 0;
  const next = async () => void served++;
  const first = context();
  assert.equal(await middleware(first, next), undefined);
  assert.equal(first.headers["X-RateLimit-Tier"], "anonymous");
  assert.equal((await middleware(context(), next)).status, 429);
  assert.equal(served, 1);
});

test("Express, by the address of the connection, and without a server", async (t) => {
  const listen = async (limit) => {
    const server = createServer((req, res) => limit(req, res, (err) => res.end(err ? String(err) : "ok"))).listen(0, "127.0.0.1");
    t.after(() => server.close());
    await new Promise((resolve) => server.once("listening", resolve));
    return () => new Promise((resolve) => get({ port: server.address().port, host: "127.0.0.1", path: "/a?b", agent: false }, (res) => {
      let body = "";
      res.on("data", (data) => (body += data)).on("end", () => resolve({ status: res.statusCode, headers: res.headers, body }));
    }));
  };
  const ask = await listen(rateLimit({ stint }));
  const first = await ask();
  assert.deepEqual([first.status, first.body, first.headers["x-ratelimit-tier"]], [200, "ok", "anonymous"]);
  const second = await ask();
  assert.equal(second.status, 429);
  assert.equal(JSON.parse(second.body).error, "rate_limited");
  const url = `http://127.0.0.1:${await freePort()}`;
  const closed = await (await listen(rateLimit({ stint: new Stint({ url, onFailure: "deny" }) })))();
  assert.deepEqual([closed.status, JSON.parse(closed.body).error, closed.headers["retry-after"]], [503, "unavailable", "1"]);
  const open = await (await listen(rateLimit({ stint: new Stint({ url }) })))();
  assert.deepEqual([open.status, open.body], [200, "ok"]);
  const thrown = await (await listen(rateLimit({ stint: new Stint({ url, onFailure: "throw" }) })))();
  assert.match(thrown.body, /StintError/);
});

test("the example: tiers in a middleware of Next.js, in at most ten lines", async (t) => {
  const source = readFileSync(join(root, "example/middleware.ts"), "utf8");
  assert.ok(source.trim().split("\n").filter((line) => line !== "").length <= 10);
  assert.ok(readFileSync(join(root, "README.md"), "utf8").includes(source), "the README shows it");
  const policies = readFileSync(join(root, "../../examples/tiers/stint.yaml"), "utf8") + "\nfailure: {budget: 1s}\n";
  const server = await startStint(t, { redis, policies });
  process.env.STINT_URL = server.url;
  process.env.STINT_TOKEN = token;
  const directory = mkdtempSync(join(root, "dist-example-"));
  t.after(() => rmSync(directory, { recursive: true }));
  execFileSync("node_modules/.bin/tsc", ["--strict", "--target", "es2022", "--module", "nodenext", "--types", "node",
    "--rootDir", ".", "--outDir", directory, "example/middleware.ts"], { cwd: root, stdio: "inherit" });
  const { middleware, config } = await import(join(directory, "example/middleware.js"));
  assert.equal(config.matcher, "/api/:path*");
  const as = (cookie) => middleware(request("/api/search", { headers: { "x-real-ip": "203.0.113.7", ...(cookie && { cookie }) } }));
  for (const [cookie, tier, limit] of [["session=1:enterprise", "enterprise", "500"], ["session=2:pro", "pro", "100"], ["session=3:free", "free", "30"], [undefined, "anonymous", "10"]]) {
    let response; // without a tier: the server was too slow for the example's client
    await until("the server decides", async () => (response = await as(cookie)).headers.has("X-RateLimit-Tier"));
    assert.equal(response.status, 200);
    assert.equal(response.headers.get("x-middleware-next"), "1");
    assert.equal(response.headers.get("X-RateLimit-Tier"), tier);
    assert.equal(response.headers.get("X-RateLimit-Limit"), limit);
  }
  assert.equal((await as()).status, 200);
  await until("one more is denied", async () => (await as()).status === 429);
  assert.equal((await as("session=3:free")).status, 200);
});
