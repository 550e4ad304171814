// Starts real servers for the tests: Redis, and stint serve from STINT_BINARY or the PATH.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
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
function run(t, command, args, options) {
  const child = spawn(command, args, { stdio: ["ignore", "ignore", "pipe"], ...options });
  let log = "";
  child.stderr.on("data", (data) => (log += data));
  const ended = new Promise((resolve) => child.on("exit", resolve).on("error", (err) => ((log += err), resolve())));
  const end = async (signal = "SIGKILL") => {
    child.kill(signal);
    await ended;
  };
  t.after(() => end());
  return { child, end, log: () => log };
}

export async function startRedis(t) {
  const port = await freePort();
  const directory = mkdtempSync(join(tmpdir(), "stint-redis-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  const server = run(t, process.env.STINT_REDIS_SERVER ?? "redis-server", ["--bind", "127.0.0.1", "--port", port, "--save", "", "--dir", directory]);
  return { ...server, url: `redis://127.0.0.1:${port}` };
}

/** Starts a server. Mode is the failure mode of its configuration, unless there is another one. */
export async function startStint(t, { redis, mode = "deny", policies = configuration(mode) }) {
  const directory = mkdtempSync(join(tmpdir(), "stint-client-"));
  t.after(() => rmSync(directory, { recursive: true, force: true }));
  const config = join(directory, "stint.yaml");
  const tokens = join(directory, "tokens");
  writeFileSync(config, policies);
  writeFileSync(tokens, token + "\n", { mode: 0o600 });
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const server = run(t, process.env.STINT_BINARY ?? "stint", ["serve", "--config", config, "--store", redis.url,
    "--http", `127.0.0.1:${port}`, "--admin", "", "--api-token-file", tokens, "--api-ad-hoc"]);
  await until(`stint serves: ${server.log()}`, async () => {
    try {
      return (await fetch(`${url}/readyz`)).ok;
    } catch {
      if (server.child.exitCode !== null) throw new Error(server.log());
      return false;
    }
  });
  return { ...server, url };
}
