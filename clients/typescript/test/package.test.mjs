// Tests what the package is: its types are those of the document, it is small, and it holds no more than it should.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { buildSync } from "esbuild";

const root = dirname(dirname(fileURLToPath(import.meta.url)));

test("the types are generated from the document", (t) => {
  const directory = mkdtempSync(join(tmpdir(), "stint-types-"));
  t.after(() => rmSync(directory, { recursive: true }));
  const file = join(directory, "types.ts");
  execFileSync("node", ["generate.mjs", "../../internal/server/api/openapi.json", file], { cwd: root });
  assert.equal(readFileSync(file, "utf8"), readFileSync(join(root, "src/types.ts"), "utf8"), "run npm run build, and commit src/types.ts");
});

test("the core has at most 10 KB, minified and gzipped, and imports nothing", () => {
  const { outputFiles } = buildSync({ entryPoints: [join(root, "dist/index.js")], bundle: true, minify: true, format: "esm", write: false });
  const size = gzipSync(outputFiles[0].contents).length;
  assert.ok(size <= 10_000, `${size} bytes`);
  for (const entry of ["fetch", "express", "next"]) {
    const text = readFileSync(join(root, `dist/${entry}.js`), "utf8");
    for (const [, from] of text.matchAll(/from "([^"]+)"/g)) assert.match(from, /^\.\//);
  }
});

test("the package holds its entry points and types, and has no dependencies", () => {
  const [{ files }] = JSON.parse(execFileSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], { cwd: root, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }));
  const modules = ["express", "fetch", "index", "next", "types"].flatMap((name) => [`dist/${name}.d.ts`, `dist/${name}.js`]);
  assert.deepEqual(files.map((f) => f.path).sort(), [...modules, "LICENSE", "README.md", "package.json"].sort());
  const description = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  assert.equal(description.dependencies, undefined);
});

test("programs that use it compile strictly, in Node and in a worker", (t) => {
  const directory = mkdtempSync(join(root, "node_modules", "use-"));
  t.after(() => rmSync(directory, { recursive: true }));
  writeFileSync(join(directory, "package.json"), '{"type": "module"}');
  writeFileSync(join(directory, "use.ts"), `
import { createServer } from "node:http";
import { Stint, type Decision } from "../../dist/index.js";
import { rateLimit } from "../../dist/express.js";
import { withRateLimit } from "../../dist/fetch.js";
const stint = new Stint({ url: ["http://a", "http://b"], onFailure: "deny" });
const limit = rateLimit({ stint, claims: () => ({ user: "1" }) });
createServer((request, response) => void limit({ ...request, url: request.url!, method: request.method! }, response, () => response.end("ok")));
export default { fetch: withRateLimit((_request: Request, env: { x: string }) => new Response(env.x), { stint }) };
export const d: Promise<Decision> = stint.wait({ api: "igdb" });
// @ts-expect-error: a subject without what it is held to
void stint.take({ subject: "user:1" });
`);
  execFileSync("node_modules/.bin/tsc", ["--strict", "--noEmit", "--target", "es2022", "--module", "nodenext", "--types", "node", join(directory, "use.ts")], { cwd: root, stdio: "inherit" });
});
