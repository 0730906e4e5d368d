import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { silentLogger } from "../base/log.ts";
import type { ProfileReport } from "./core/messages.ts";
import { type ProfileSupervisor, superviseProfiles } from "./supervise-profiles.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "coral-profiles-"));
});
afterEach(() => rmSync(directory, { recursive: true }));

const settings = { hz: 19, windowMs: 60_000, maxStacks: 100, cpuBudget: 0.01 };

function supervise(program: string): { supervisor: ProfileSupervisor; reports: ProfileReport[] } {
  const childPath = join(directory, "child.mjs");
  writeFileSync(childPath, program);
  const reports: ProfileReport[] = [];
  const supervisor = superviseProfiles({
    settings,
    onReport: (report) => reports.push(report),
    log: silentLogger,
    childPath,
  });
  return { supervisor, reports };
}

describe("superviseProfiles()", () => {
  it("passes settings to the process and receives reports, until it is closed", async () => {
    const { supervisor, reports } = supervise(`
      process.on("message", ({ settings }) => process.send({ kind: "state", state: "on", problem: null, hz: settings.hz }));
      process.on("disconnect", () => process.exit(0));`);
    await expect.poll(() => supervisor.status().state?.hz).toBe(19);
    await supervisor[Symbol.asyncDispose]();
    expect(supervisor.status()).toMatchObject({ pid: null, restarts: 0 });
    expect(reports).toHaveLength(1);
  });

  it("does not restart a process that cannot work on this host", async () => {
    const { supervisor } = supervise(`
      process.send({ kind: "state", state: "off", problem: "no capability", hz: 0 }, () => process.exit(3));`);
    await expect.poll(() => supervisor.status()).toMatchObject({ state: { state: "off", problem: "no capability" }, pid: null });
    await supervisor[Symbol.asyncDispose]();
    expect(supervisor.status().restarts).toBe(0);
  });

  it("restarts a failed process, and reports the unobserved time", async () => {
    const { supervisor, reports } = supervise(`console.error("out of luck"); process.exit(1);`);
    await expect
      .poll(() => reports.flatMap((report) => (report.kind === "window" ? report.losses : [])))
      .toMatchObject([{ loss: "away-seconds" }]);
    expect(supervisor.status().lastEnd).toBe("exit code 1: out of luck");
    await supervisor[Symbol.asyncDispose]();
  });
});
