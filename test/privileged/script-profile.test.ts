/** CPU profiles of JavaScript and Python programs whose hot functions are known, without a flag or restart. */

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { silentLogger } from "../../src/base/log.ts";
import { type ProfileReport, superviseProfiles } from "../../src/profile/index.ts";
import { probesSkipReason } from "../support/bpf-skip-reason.ts";
import { waitFor } from "../support/wait-for.ts";

const reason = probesSkipReason("gcc");
const childPath = fileURLToPath(new URL("../../dist/profile-process.js", import.meta.url));

/** Three parts of the time in `heavyWork`, one in `lightWork`; both are called after an `await`. */
const node = `
function spin(rounds) { let sum = 0; for (let i = 0; i < rounds; i++) sum += Math.sqrt(i) * i; return sum; }
function heavyWork() { return spin(3e5); }
const lightWork = () => spin(1e5);
class Shop { handleCheckout() { return heavyWork() + lightWork(); } }
async function serve(shop) { for (;;) { shop.handleCheckout(); await new Promise((done) => setImmediate(done)); } }
serve(new Shop());
`;
const python = `
import threading
def spin(rounds):
    total = 0
    for i in range(rounds): total += i * i
    return total
def heavy_work(): return spin(60000)
def light_work(): return spin(20000)
class Shop:
    def handle_checkout(self): return heavy_work() + light_work()
def serve():
    while True: Shop().handle_checkout()
threading.Thread(target=serve).start()
`;

interface Case {
  title: string;
  program: string;
  file: string;
  source: string;
  kind: "node" | "python";
  /** Outermost first. */
  chain: readonly string[];
  light: string;
}

const cases: readonly Case[] = [
  {
    title: "JavaScript",
    program: process.execPath,
    file: "shop.mjs",
    source: node,
    kind: "node",
    chain: ["serve", "handleCheckout", "heavyWork"],
    light: "lightWork",
  },
  {
    title: "Python",
    program: "/usr/bin/python3",
    file: "shop.py",
    source: python,
    kind: "python",
    chain: ["serve", "Shop.handle_checkout", "heavy_work"],
    light: "light_work",
  },
];

/** Offsets are known for CPython 3.11 to 3.13. */
function whyNot({ kind, program }: Case): string | undefined {
  if (reason !== undefined || kind === "node") return reason;
  const version = spawnSync(program, ["--version"], { encoding: "utf8" }).stdout ?? "";
  return / 3\.1[1-3]\./.test(version) ? undefined : `needs python3 of version 3.11 to 3.13 in /usr/bin; found: ${version.trim() || "none"}`;
}

for (const one of cases) {
  const why = whyNot(one);
  describe.skipIf(why !== undefined)(`CPU profiles of ${one.title}${why === undefined ? "" : ` (${why})`}`, () => {
    const directory = mkdtempSync(join(tmpdir(), "coral-script-profile-"));
    const reports: ProfileReport[] = [];
    let program: ChildProcess;
    const stacks = () =>
      reports.flatMap((report) => {
        if (report.kind !== "window") return [];
        const own = report.stacks.filter(({ pid }) => pid === program.pid);
        return own.map(({ frames, samples, isWhole }) => ({ frames: frames.map((number) => report.frames[number]), samples, isWhole }));
      });
    /** The first sample of a process only makes its runtime known. */
    const named = () => stacks().filter(({ frames }) => frames.some((frame) => frame?.kind === one.kind));
    const count = (some: readonly { samples: number }[]): number => some.reduce((sum, { samples }) => sum + samples, 0);

    beforeAll(async () => {
      const path = join(directory, one.file);
      writeFileSync(path, one.source);
      program = spawn("nice", ["-n", "-10", one.program, path], { stdio: "ignore" });
      await using _supervisor = superviseProfiles({
        settings: { hz: 49, windowMs: 1_000, maxStacks: 10_000, cpuBudget: 1 },
        onReport: (report) => reports.push(report),
        log: silentLogger,
        childPath,
      });
      await waitFor("enough samples", () => count(named()) > 100, { timeoutMs: 170_000 });
    });
    afterAll(() => {
      program.kill("SIGKILL");
      rmSync(directory, { recursive: true });
    });

    it("name functions with their file, callers included", () => {
      const hot = named().filter(({ frames }) => frames.some((frame) => frame?.name === one.chain.at(-1)));
      expect(count(hot)).toBeGreaterThan(50);
      const [first] = hot.toSorted((a, b) => b.samples - a.samples);
      const names = first?.frames.flatMap((frame) => (frame?.kind === one.kind && one.chain.includes(frame.name) ? [frame.name] : []));
      expect(names).toEqual(one.chain);
      const file = first?.frames.find((frame) => frame?.name === one.chain[0])?.module;
      expect(file).toMatch(new RegExp(`/${one.file}$`));
    });

    it("give them their share of the time", () => {
      const withName = (name: string | undefined): number =>
        count(named().filter(({ frames }) => frames.some((frame) => frame?.name === name)));
      const [heavy, light] = [withName(one.chain.at(-1)), withName(one.light)];
      // 100 samples: one deviation is 4.3 points.
      expect(Math.abs(heavy / (heavy + light) - 0.75)).toBeLessThan(0.2);
      expect((heavy + light) / count(named())).toBeGreaterThan(0.7);
    });

    it("reach the start of the program or thread", () => {
      expect(count(named().filter(({ isWhole }) => isWhole)) / count(named())).toBeGreaterThan(0.95);
    });
  });
}
