// Starts real servers for the tests: Redis, and stint serve from STINT_BINARY or the PATH.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const token = "a-token-of-the-tests";

const configuration = (mode) => `
failure: {mode: ${mode}, budget: 1s}
claims: {user: "", plan: ""}
tiers:
  - {name: pro, match: {claim: {plan: pro}}, identity: user, limits: 5/1h}
  - {name: free, identity: user, limits: 2/1h, budget: 1000/1h, contact: sales@example.com}
  - {name: anonymous, identity: ip, limits: 1/1h}
policies:
  - {name: search, match: {path: /search}, limits: 3/1h}
  - {name: slots, match: {path: /slots}, limits: 1/30s concurrency}
outbound:
  igdb: {limits: 4/1s}
`;

/** A port that is free now. */
export function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

export async function until(what, ready) {
  for (const start = Date.now(); Date.now() - start < 60_000; ) {
    if (await ready()) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`not so after a minute: ${what}`);
}

/** Runs a program until the test ends. */
function run(t, command, args) {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"] });
  let log = "";
  let over = false;
  for (const output of [child.stdout, child.stderr]) output.on("data", (data) => (log += data));
  const ended = new Promise((resolve) => child.on("exit", resolve).on("error", (err) => ((log += err), resolve())));
  ended.then(() => (over = true));
  const end = async (signal = "SIGKILL") => {
    child.kill(signal);
    await ended;
  };
  t.after(() => end());
  return { end, ended: () => over, log: () => log };
}

/**
 * Starts a program that listens on a free port, and waits until it is ready. If the program ends first, another program
 * may have taken the port, so it is started again on another port.
 */
async function listen(t, command, args, ready) {
  for (let attempt = 1; ; attempt++) {
    const port = await freePort();
    const server = run(t, command, args(port));
    let ended = false;
    await until(`${command} listens`, async () => (ended = server.ended()) || (await ready(port)));
    if (!ended) return { ...server, port };
    if (attempt === 3) throw new Error(`${command} ended: ${server.log()}`);
  }
}

/** Reports whether a Redis answers on the port. */
function pong(port) {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => socket.write("PING\r\n"));
    socket.setTimeout(1000, () => socket.destroy());
    socket.on("error", () => {}).on("close", () => resolve(false));
    socket.once("data", (data) => (resolve(String(data).startsWith("+PONG")), socket.destroy()));
  });
}

export async function startRedis(t) {
  const directory = mkdtempSync(join(tmpdir(), "stint-redis-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  const server = await listen(t, process.env.STINT_REDIS_SERVER ?? "redis-server",
    (port) => ["--bind", "127.0.0.1", "--port", port, "--save", "", "--dir", directory], pong);
  return { ...server, url: `redis://127.0.0.1:${server.port}` };
}

/** Starts a server. Without policies, it has a configuration with the failure mode `mode`. */
export async function startStint(t, { redis, mode = "deny", policies = configuration(mode) }) {
  const directory = mkdtempSync(join(tmpdir(), "stint-client-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  const config = join(directory, "stint.yaml");
  const tokens = join(directory, "tokens");
  writeFileSync(config, policies);
  writeFileSync(tokens, token + "\n", { mode: 0o600 });
  const server = await listen(t, process.env.STINT_BINARY ?? "stint",
    (port) => ["serve", "--config", config, "--store", redis.url, "--http", `127.0.0.1:${port}`, "--admin", "",
      "--api-token-file", tokens, "--api-ad-hoc"],
    (port) => fetch(`http://127.0.0.1:${port}/readyz`).then((response) => response.ok, () => false));
  return { ...server, url: `http://127.0.0.1:${server.port}` };
}
