// `npm run bench [-- name ...]`: runs all or the named benchmarks in bench/*.ts, one after the other. Each is a process and writes its own results.
import { mkdirSync } from "node:fs";
import { basename, join } from "node:path";
import { requireNode } from "./lib/require-node.mjs";

requireNode();
const { setup } = await import("./lib/setup.mjs");
const { bundleOptions } = await import("./lib/bundle.mjs");
const { reportFailure, say, SetupError } = await import("./lib/report.mjs");
const { root, runVisibly } = await import("./lib/run.mjs");
const { filesBelow } = await import("./lib/stamps.mjs");

async function main() {
  const available = filesBelow("bench", (file) => /^bench[/\\][a-z0-9-]+\.ts$/.test(file)).map((file) => basename(file, ".ts"));
  // What follows --with are arguments of the benchmark itself: `npm run bench:rca -- <folder>`.
  const [own, passed] = splitAt(process.argv.slice(2), "--with");
  const wanted = own.filter((argument) => !argument.startsWith("-"));
  const unknown = wanted.filter((name) => !available.includes(name));
  if (unknown.length > 0)
    throw new SetupError(`Cannot run benchmark "${unknown.join('", "')}": unknown name; available: ${available.join(", ")}`);
  // Benchmarks use the same servers and load generators as tests.
  await setup({ forTests: true });
  const { build } = await import("esbuild");
  mkdirSync(join(root, "bench/results"), { recursive: true });
  for (const name of wanted.length > 0 ? wanted : available) {
    // Inside the checkout, so that Node resolves external packages; as deep as src/<room> and bench/lib, so that relative URLs stay valid.
    const outfile = join(root, "build/bench", `${name}.js`);
    await build({ ...bundleOptions, absWorkingDir: root, entryPoints: [`bench/${name}.ts`], outfile, sourcemap: "inline" });
    say(`benchmark ${name}`);
    const code = await runVisibly(process.execPath, ["--enable-source-maps", "--expose-gc", outfile, ...passed]);
    if (code !== 0) process.exitCode = code;
  }
}

/**
 * @param {string[]} words
 * @param {string} mark
 */
function splitAt(words, mark) {
  const at = words.indexOf(mark);
  return at < 0 ? /** @type {const} */ ([words, []]) : /** @type {const} */ ([words.slice(0, at), words.slice(at + 1)]);
}

await main().catch(reportFailure);
