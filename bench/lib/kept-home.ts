/**
 * A CORAL_HOME whose store takes minutes to fill. With CORAL_BENCH_KEEP=<directory> it is filled once, kept there and copied for each run. Either way, the
 * clocks of the daemons and of this process are set back to the end of the filled time, so that queries about the last hour find a full hour.
 */

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { CoralHome } from "./coral-process.ts";

interface Filled<T> {
  home: CoralHome;
  facts: T;
}

interface Kept<T> {
  nowMs: number;
  facts: T;
}

export async function openFilledHome<T>(name: string, fill: (home: CoralHome, nowMs: number) => Promise<T>): Promise<Filled<T>> {
  const home = new CoralHome();
  try {
    const { nowMs, facts } = await keptOrFilled(name, home, fill);
    turnBackClock(home, Date.now() - nowMs);
    return { home, facts };
  } catch (error) {
    home[Symbol.dispose]();
    throw error;
  }
}

async function keptOrFilled<T>(name: string, home: CoralHome, fill: (home: CoralHome, nowMs: number) => Promise<T>): Promise<Kept<T>> {
  const directory = process.env["CORAL_BENCH_KEEP"];
  const kept = directory === undefined ? undefined : join(directory, name);
  if (kept !== undefined && existsSync(kept)) {
    copy(join(kept, "home"), home.path);
    return JSON.parse(readFileSync(join(kept, "filled.json"), "utf8")) as Kept<T>;
  }
  home.run("init", "bench");
  const nowMs = Date.now();
  const filled = { nowMs, facts: await fill(home, nowMs) };
  if (kept !== undefined) {
    rmSync(`${kept}.new`, { recursive: true, force: true });
    mkdirSync(join(`${kept}.new`, "home"), { recursive: true });
    copy(home.path, join(`${kept}.new`, "home"));
    writeFileSync(join(`${kept}.new`, "filled.json"), JSON.stringify(filled));
    renameSync(`${kept}.new`, kept);
  }
  return filled;
}

function copy(from: string, to: string): void {
  const { status, stderr } = spawnSync("cp", ["-a", "--reflink=auto", `${from}/.`, to], { encoding: "utf8" });
  if (status !== 0) throw new Error(`cannot copy ${from} to ${to}: ${stderr}`);
}

/** Monotonic time is not changed. */
function turnBackClock(home: CoralHome, byMs: number): void {
  const file = join(home.path, "clock.mjs");
  writeFileSync(
    file,
    `const { now } = Date;
Date.now = () => now() - ${Math.round(byMs)};
const Real = Date;
globalThis.Date = class Date extends Real {
  constructor(...parts) {
    if (parts.length === 0) super(Real.now());
    else super(...parts);
  }
};
`,
  );
  home.env["NODE_OPTIONS"] = `--import=${file}`;
  const { now } = Date;
  Date.now = () => now() - Math.round(byMs);
}
