/** Start-up time of `coral version` and `coral status`, against an empty Node script. */

import { spawnSync } from "node:child_process";
import { CoralHome, coralFile } from "./lib/coral-process.ts";
import { figureOf, isSmall, report } from "./lib/report.ts";
import { ratioOf } from "./lib/spread.ts";

const rounds = isSmall ? 5 : 40;

/** From before the spawn until the process has exited. */
function timeMs(command: string, args: readonly string[], env: NodeJS.ProcessEnv): number {
  const startMs = performance.now();
  const { status, stderr } = spawnSync(command, args, { env, stdio: ["ignore", "ignore", "pipe"] });
  const tookMs = performance.now() - startMs;
  if (status !== 0) throw new Error(`${command} ${args.join(" ")} exited with ${status}: ${stderr.toString()}`);
  return tookMs;
}

using home = new CoralHome();
await using daemon = await home.start(["up", "--port", "0"], () => home.run("status"));

const bare: number[] = [];
const version: number[] = [];
const status: number[] = [];
const measurements = [
  { times: bare, measure: () => timeMs(process.execPath, ["-e", "0"], home.env) },
  { times: version, measure: () => timeMs(coralFile, ["version"], home.env) },
  { times: status, measure: () => timeMs(coralFile, ["status"], home.env) },
];
for (const { measure } of measurements) measure();
for (let round = 0; round < rounds; round++) {
  // Each round starts with a different command, so that none always follows the same one.
  for (let index = 0; index < measurements.length; index++) {
    const { times, measure } = measurements[(round + index) % measurements.length] ?? measurements[0]!;
    times.push(measure());
  }
}
daemon.check();

report({
  name: "start-up",
  sizes: { rounds },
  figures: [
    figureOf("coral version", "×", ratioOf(version, bare), { kind: "at-most", value: 1.6 }),
    figureOf("coral status", "×", ratioOf(status, bare), { kind: "at-most", value: 2.5 }),
    figureOf("node -e 0", "ms", bare),
    figureOf("coral version (time)", "ms", version),
    figureOf("coral status (time)", "ms", status),
  ],
});
