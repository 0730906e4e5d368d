/** Verifier cost of Coral's BPF programs. The limit is a million instructions, and other kernels need more for the same program. */

import { readdirSync, readFileSync } from "node:fs";
import { beforeEach, describe, expect, it } from "vitest";
import { openKernelHooks } from "../../src/traffic/kernel/kernel-hooks.ts";
import { probesSkipReason, requestsObject } from "../support/bpf-skip-reason.ts";
import { testTrafficSettings } from "../support/traffic-settings.ts";

const skipReason = probesSkipReason();

/** Verified instructions of each program that this process holds. Kernels before 5.16 do not report it. */
function verifiedInstructions(): number[] {
  return readdirSync("/proc/self/fdinfo").flatMap((fd) => {
    try {
      const count = /^verified_insns:\s+(\d+)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, "utf8"))?.[1];
      return count === undefined ? [] : [Number(count)];
    } catch {
      // The descriptor was closed, such as the one of this directory listing.
      return [];
    }
  });
}

describe("the verifier", () => {
  beforeEach((context) => {
    context.skip(skipReason !== undefined, skipReason);
  });

  it.each(["sockets", "syscalls"] as const)("stays far below its limit for the hooks at %s", async (kind) => {
    const settings = { ...testTrafficSettings, tls: { isEnabled: true, excludedExecutables: [] } };
    await using hooks = await openKernelHooks({ settings, ownPids: [], kinds: [kind], objectPath: requestsObject });
    const counts = verifiedInstructions();
    expect(counts.length).toBeGreaterThanOrEqual(hooks.object.programs.length);
    expect(Math.max(...counts)).toBeLessThan(300_000);
  });
});
