import { closeSync, mkdtempSync, openSync, rmSync, statSync } from "node:fs";
import { freemem, tmpdir, totalmem } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { CoralError } from "../../base/errors.ts";
import { formatBytes } from "../../base/units.ts";
import { tryLockFile } from "../../bpf/index.ts";
import type { DoctorCheck } from "../../cli/index.ts";

const oldestNode = [20, 19] as const;
/** Colony and agent together need about this much to stay responsive. */
const comfortableMemoryBytes = 512 * 1024 ** 2;

export function checkRuntime(): Promise<DoctorCheck[]> {
  return Promise.resolve([
    checkPlatform(process.platform, process.arch),
    checkNode(process.versions.node),
    checkMemory(freeMemoryBytes(), totalmem()),
    checkClock(Date.now(), builtAtMs()),
    checkNative(),
  ]);
}

export function checkPlatform(platform: string, arch: string): DoctorCheck {
  const base = { area: "runtime", name: "platform", detail: `${platform} on ${arch}` } as const;
  if (platform !== "linux") return { ...base, state: "unavailable", fix: "run the agent on Linux; the CLI works elsewhere" };
  if (arch !== "x64" && arch !== "arm64") return { ...base, state: "degraded", fix: "eBPF is supported on x64 and arm64" };
  return { ...base, state: "ok" };
}

export function checkNode(version: string): DoctorCheck {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const isNewEnough = major > oldestNode[0] || (major === oldestNode[0] && minor >= oldestNode[1]);
  const base = { area: "runtime", name: "node", detail: version } as const;
  return isNewEnough ? { ...base, state: "ok" } : { ...base, state: "unavailable", fix: `install Node ${oldestNode.join(".")} or newer` };
}

/** Node reports what is available without swapping, and respects the cgroup's limit. */
function freeMemoryBytes(): number {
  const constrainedBytes = process.constrainedMemory();
  const isLimited = constrainedBytes !== undefined && constrainedBytes > 0 && constrainedBytes < totalmem();
  return isLimited ? Math.min(constrainedBytes - process.memoryUsage.rss(), freemem()) : freemem();
}

export function checkMemory(freeBytes: number, totalBytes: number): DoctorCheck {
  const base = { area: "runtime", name: "memory", detail: `${formatBytes(freeBytes)} available of ${formatBytes(totalBytes)}` } as const;
  if (freeBytes >= comfortableMemoryBytes) return { ...base, state: "ok" };
  return { ...base, state: "degraded", fix: "lower store.memory in colony.yaml and agent.yaml, or free some memory" };
}

/** Build time of this program: no correct clock is earlier. */
function builtAtMs(): number {
  return statSync(fileURLToPath(import.meta.url)).mtimeMs;
}

export function checkClock(nowMs: number, earliestMs: number): DoctorCheck {
  const detail = new Date(nowMs).toISOString();
  // Certificates are backdated by a day, so a smaller error is harmless.
  const toleranceMs = 24 * 3_600_000;
  if (nowMs >= earliestMs - toleranceMs) return { area: "runtime", name: "clock", state: "ok", detail };
  return {
    area: "runtime",
    name: "clock",
    state: "degraded",
    detail: `${detail}, which is before this program was built (${new Date(earliestMs).toISOString()})`,
    fix: "set the clock, for example with systemd-timesyncd; certificates are rejected otherwise",
  };
}

/** One real call through the FFI library: locking a file. */
function checkNative(): DoctorCheck {
  const base = { area: "runtime", name: "native calls" } as const;
  const directory = mkdtempSync(join(tmpdir(), "coral-doctor-"));
  try {
    const fd = openSync(join(directory, "lock"), "w");
    try {
      return tryLockFile(fd)
        ? { ...base, state: "ok", detail: "koffi loads and calls the C library" }
        : { ...base, state: "degraded", detail: "a new file cannot be locked", fix: "set TMPDIR to a local file system" };
    } finally {
      closeSync(fd);
    }
  } catch (error) {
    return { ...base, state: "unavailable", detail: CoralError.from(error).message, fix: 'reinstall with "npm run setup"' };
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
