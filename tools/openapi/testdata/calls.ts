// Makes every call of the API through the client that openapi-typescript generates, and checks the
// answers. A test of package server runs it.
import createClient from "openapi-fetch";
import type { components, paths } from "./stint.js";

declare const process: { env: Record<string, string>; exitCode: number };

const url = process.env.STINT_URL!;
const token = process.env.STINT_TOKEN!;
const agent = { "User-Agent": "calls.ts" };
const client = createClient<paths>({ baseUrl: url, headers: { ...agent, Authorization: `Bearer ${token}` } });

await decisions();
await batch();
await charges();
await usage();
await problems();
await example(url, token);

// Example.

async function example(baseUrl: string, token: string) {
  const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${token}` } });
  const { data, error, response } = await client.POST("/v1/take", {
    body: { subject: "user:42", tier: "free" },
  });
  if (data) {
    console.log("allowed:", data.limits[0].remaining, "left");
  } else if ("allowed" in error) {
    console.log("denied: wait for", error.retry_after_seconds, "seconds");
  } else {
    throw new Error(`${response.status}: ${error.message}`);
  }
}

// End of the example.

async function decisions() {
  const requests: components["schemas"]["Request"][] = [
    {
      method: "POST", path: "/login", peer: "203.0.113.9", host: "example.com", headers: { "User-Agent": "calls" },
      claims: { user: "ts" }, cost: 2, id: "ts-1",
    },
    { subject: "ts:1", policy: "login", tier: "free", scope: "calls", cost: 1, id: "ts-2" },
    { subject: "ts:1", tier: "free", scope: "calls", cost: 3, id: "ts-3" },
  ];
  for (const [i, body] of requests.entries()) {
    const peek = (await client.POST("/v1/peek", { body })).data!;
    check("peek", peek.allowed, true);
    check("peek: charge", peek.charge, "");
    const { data, response } = await client.POST("/v1/take", { body });
    check("take", data!.allowed, true);
    check("take: cost", data!.cost, body.cost!);
    check("take: policy", data!.policy, ["login", "login", "free"][i]);
    check("take: retry_after_seconds", data!.retry_after_seconds, 0);
    const limit = data!.limits[0];
    check("take: used and left", limit.used + limit.remaining, limit.max);
    check("take: header", Number(response.headers.get("X-RateLimit-Cost")), data!.cost);
    check("take: repeat", (await client.POST("/v1/take", { body })).data!.repeat, true);
  }
  // More than the limit ever allows: no wait helps, so the field is null.
  const never = await client.POST("/v1/take", {
    body: { subject: "ts:1", limits: ["100/1m"], scope: "calls", cost: 2 ** 53, id: "ts-4" },
  });
  check("take: never", denial(never.error).retry_after_seconds, null);
  check("take: cost", denial(never.error).cost, 2 ** 53);

  const body = { subject: "ts:2", limits: ["1/1h bucket"] };
  check("reserve", (await client.POST("/v1/reserve", { body: { ...body, max_wait_seconds: 7200.5 } })).data!.retry_after_seconds, 0);
  const later = (await client.POST("/v1/reserve", { body })).data!;
  check("reserve: a wait", later.retry_after_seconds! > 3000, true);
  const denied = await client.POST("/v1/reserve", { body: { ...body, max_wait_seconds: 0.5 } });
  check("reserve: denied", denial(denied.error).allowed, false);
  check("reserve: Retry-After", Number(denied.response.headers.get("Retry-After")) > 3000, true);
  const late = await client.POST("/v1/wait", { body: { ...body, max_wait_seconds: 0.5 } });
  check("wait: denied", denial(late.error).allowed, false);
  check("wait", (await client.POST("/v1/wait", { body: { api: "igdb" } })).data!.limits[0].limit, "4/1s");
  const cooled = await client.POST("/v1/cooldown", { body: { api: "igdb", for_seconds: 0.5 } });
  check("cooldown", cooled.data!.paused_seconds, 0.5);
  check("peek: denied", (await client.POST("/v1/peek", { body })).data!.allowed, false);
}

async function batch() {
  const requests: components["schemas"]["BatchItem"][] = [
    { method: "GET", path: "/", peer: "203.0.113.9" },
    { subject: "ts:3", policy: "login", mode: "peek" },
    { subject: "ts:3", tier: "free", mode: "reserve", max_wait_seconds: 0.25 },
    { subject: "ts:3", limits: ["1/1m"], cost: 2 },
  ];
  const { results } = (await client.POST("/v1/batch", { body: { requests } })).data!;
  check("batch", results.length, requests.length);
  for (const [i, want] of [200, 200, 200, 429].entries()) {
    check("batch: status", results[i].status, want);
    check("batch: allowed", results[i].decision!.allowed, want === 200);
    check("batch: problem", results[i].problem, undefined);
  }
}

async function charges() {
  const take = async (body: components["schemas"]["Request"]) => (await client.POST("/v1/take", { body })).data!.charge;
  const settle = { charge: await take({ subject: "ts:4", tier: "free", cost: 3 }), cost: 1 };
  check("settle", (await client.POST("/v1/settle", { body: settle })).data!.changed, true);
  check("settle: again", (await client.POST("/v1/settle", { body: settle })).data!.changed, false);
  const login = { charge: await take({ subject: "ts:4", policy: "login" }) };
  check("refund", (await client.POST("/v1/refund", { body: login })).data!.changed, true);
  const place = { charge: await take({ subject: "ts:4", policy: "export" }) };
  check("extend", (await client.POST("/v1/extend", { body: place })).data!.changed, true);
  check("release", (await client.POST("/v1/release", { body: place })).data!.changed, true);
  check("extend: lost", (await client.POST("/v1/extend", { body: place })).data!.changed, false);

  // Work whose cost is known only afterward, in two quantities.
  const hold = (await client.POST("/v1/take", {
    body: { subject: "ts:8", limits: ["in: 1000/1d", "out: 1000/1d"], costs: { in: 100, out: 400 }, hold_seconds: 300.5 },
  })).data!;
  check("take: hold_seconds", hold.hold_seconds, 300.5);
  const beat = { charge: hold.charge, costs: { out: 50 } };
  check("extend: a hold", (await client.POST("/v1/extend", { body: beat })).data!.changed, true);
  const truth = { charge: hold.charge, costs: { in: 100, out: 70 } };
  check("settle: charged", (await client.POST("/v1/settle", { body: truth })).data!.charged, 170);
  const lost = { subject: "ts:9", tier: "free", id: "ts-9" };
  check("take", (await client.POST("/v1/take", { body: lost })).data!.allowed, true);
  check("refund: by id", (await client.POST("/v1/refund", { body: lost })).data!.changed, true);
  const used = { subject: "ts:9", tier: "free", cost: 120 };
  check("report", (await client.POST("/v1/report", { body: used })).data!.limits[1].used, 120);

  const both = (await client.POST("/v1/take", {
    body: { subject: "ts:6", policy: "search", claims: { rpm: "500" }, and: [{ subject: "ts:7", policy: "login" }] },
  })).data!;
  check("take: a number from a claim", both.limits[0].max, 500);
  check("take: together", both.limits[1].subject, "ts:7");
  check("refund: together", (await client.POST("/v1/refund", { body: { charge: both.charge } })).data!.changed, true);
}

async function usage() {
  const { data } = await client.GET("/v1/usage", { headers: { "X-User-ID": "ts" } });
  check("usage: tier", data!.tier, "free");
  check("usage: limit", data!.limits[0].limit, "10/1m");
  check("usage: subject", data!.limits[0].subject, "user:ts");
  check("usage: used", data!.limits[0].used, 1);
  check("usage: unknown", (await client.GET("/v1/usage")).error!.error, "unauthorized");
}

// problems makes calls that fail, each with a body of the same form.
async function problems() {
  check("describe", (await client.GET("/openapi.json")).data!.openapi, "3.1.0");
  const body = { subject: "ts:5", tier: "free" };
  const invalid = await client.POST("/v1/take", { body: { subject: "ts:5", tier: "fre" } });
  check("400", problem(invalid.error).error, "invalid");
  check("400: field", problem(invalid.error).mistakes![0].field, "tier");
  const stranger = createClient<paths>({ baseUrl: url, headers: agent });
  check("401", problem((await stranger.POST("/v1/take", { body })).error).error, "unauthorized");
  const page = await client.POST("/v1/take", { body, headers: { "Sec-Fetch-Site": "cross-site" } });
  check("403", problem(page.error).error, "forbidden");
  const long = await client.POST("/v1/take", { body: { subject: "x".repeat(2 ** 16), tier: "free" } });
  check("413", problem(long.error).error, "too_large");
  const down = createClient<paths>({ baseUrl: process.env.STINT_DOWN_URL!, headers: agent });
  const unavailable = await down.POST("/v1/take", { body });
  check("503", problem(unavailable.error).error, "unavailable");
  check("503: Retry-After", Number(unavailable.response.headers.get("Retry-After")) > 0, true);
}

type Failure = components["schemas"]["Decision"] | components["schemas"]["Problem"] | undefined;

function denial(error: Failure): components["schemas"]["Decision"] {
  if (error && "allowed" in error) return error;
  throw new Error(`want a denial, got ${JSON.stringify(error)}`);
}

function problem(error: Failure): components["schemas"]["Problem"] {
  if (error && "message" in error) return error;
  throw new Error(`want a problem, got ${JSON.stringify(error)}`);
}

function check<Value>(what: string, got: Value, want: Value) {
  if (got !== want) throw new Error(`${what}: got ${got}, want ${want}`);
}
