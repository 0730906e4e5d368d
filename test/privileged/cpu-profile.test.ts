/** CPU profiles of programs whose hot functions are known, by the real kernel. */

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { silentLogger } from "../../src/base/log.ts";
import { type ProfileReport, type ProfileStack, type ProfileWindow, superviseProfiles } from "../../src/profile/index.ts";
import { probesSkipReason } from "../support/bpf-skip-reason.ts";
import { waitFor } from "../support/wait-for.ts";

const reason = probesSkipReason("gcc");
const childPath = fileURLToPath(new URL("../../dist/profile-process.js", import.meta.url));

/** Three quarters of the time in `heavy`, one in `light`, both called by `serve`; no frame pointers. A second thread calls `write` in a loop. */
const source = `
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>
volatile unsigned long sum;
__attribute__((noinline)) void spin(long rounds) { for (long i = 0; i < rounds; i++) sum += i * i; asm volatile(""); }
__attribute__((noinline)) void heavy(void) { spin(300000); asm volatile(""); }
__attribute__((noinline)) void light(void) { spin(100000); asm volatile(""); }
__attribute__((noinline)) void serve(void) { heavy(); light(); asm volatile(""); }
static void *writer(void *arg) { int fd = open("/dev/null", O_WRONLY); char byte = 0; for (;;) if (write(fd, &byte, 1) < 0) break; return arg; }
int main(void) { pthread_t thread; pthread_create(&thread, 0, writer, 0); pthread_setname_np(thread, "writer"); for (;;) serve(); }
`;

describe.skipIf(reason !== undefined)(`CPU profiles${reason === undefined ? "" : ` (${reason})`}`, () => {
  const directory = mkdtempSync(join(tmpdir(), "coral-cpu-profile-"));
  const reports: ProfileReport[] = [];
  let program: ChildProcess;

  type NamedStack = Omit<ProfileStack, "frames"> & { frames: ProfileWindow["frames"] };
  const stacksOf = (pid: number | undefined): NamedStack[] =>
    reports.flatMap((report) => {
      if (report.kind !== "window") return [];
      const frameOf = (number: number) => report.frames[number] ?? { name: "", module: "", kind: "unknown" as const };
      return report.stacks.flatMap((stack) => (stack.pid === pid ? [{ ...stack, frames: stack.frames.map(frameOf) }] : []));
    });
  const count = (stacks: readonly NamedStack[]): number => stacks.reduce((sum, { samples }) => sum + samples, 0);

  beforeAll(async () => {
    const path = join(directory, "known-shares");
    writeFileSync(`${path}.c`, source);
    execFileSync("gcc", ["-O2", "-fomit-frame-pointer", "-pthread", "-o", path, `${path}.c`]);
    // With priority, so that it runs even on a busy machine.
    program = spawn("nice", ["-n", "-10", path], { stdio: "ignore" });
    await using _supervisor = superviseProfiles({
      settings: { hz: 49, windowMs: 1_000, maxStacks: 10_000, cpuBudget: 1 },
      onReport: (report) => reports.push(report),
      log: silentLogger,
      childPath,
    });
    // The main thread may get a fraction of a processor only.
    const ofMain = () => stacksOf(program.pid).filter(({ threadName }) => threadName !== "writer");
    await waitFor("enough samples", () => count(ofMain()) > 100 && count(stacksOf(program.pid)) - count(ofMain()) > 15, {
      timeoutMs: 170_000,
    });
  });
  afterAll(() => {
    program.kill("SIGKILL");
    rmSync(directory, { recursive: true });
  });

  it("measures the share of time per function, without frame pointers", () => {
    const main = stacksOf(program.pid).filter(({ threadName }) => threadName === "known-shares");
    const shareWith = (name: string): number =>
      count(main.filter(({ frames }) => frames.some((frame) => frame.name === name))) / count(main);
    expect(shareWith("serve")).toBeGreaterThan(0.95);
    // 100 samples: one deviation is 4.3 points.
    expect(Math.abs(shareWith("heavy") - 0.75)).toBeLessThan(0.2);
    expect(Math.abs(shareWith("light") - 0.25)).toBeLessThan(0.2);
  });

  it("walks nearly every stack to the start of its thread", () => {
    const all = stacksOf(program.pid);
    expect(count(all.filter(({ isWhole }) => isWhole)) / count(all)).toBeGreaterThan(0.98);
    const main = all.find(({ threadName }) => threadName === "known-shares");
    expect(main?.frames.slice(0, 1).map(({ name }) => name)).toEqual(["_start"]);
  });

  it("appends kernel frames to user stacks", () => {
    const writer = stacksOf(program.pid).filter(({ threadName }) => threadName === "writer");
    const inKernel = writer.filter(({ frames }) => frames.some(({ kind }) => kind === "kernel"));
    expect(count(inKernel) / count(writer)).toBeGreaterThan(0.3);
    const names = inKernel.flatMap(({ frames }) => frames.map(({ name }) => name));
    expect(names.some((name) => /ksys_write|vfs_write|sys_write/.test(name))).toBe(true);
    expect(names).toContain("writer");
  });

  it("identifies the process and its build", () => {
    const [first] = stacksOf(program.pid);
    expect(first).toMatchObject({ processName: "known-shares", isKernelThread: false, build: expect.stringMatching(/^[0-9a-f]{40}$/) });
    expect(first?.startedNs).toBeGreaterThan(0);
  });
});
