import { accessSync, constants, existsSync, mkdtempSync, rmSync, statfsSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { CoralError } from "../../base/errors.ts";
import { silentLogger } from "../../base/log.ts";
import { formatBytes } from "../../base/units.ts";
import type { DoctorCheck } from "../../cli/index.ts";
import { agentPaths, checkSocketPath, colonyPaths, listLocalColonies, sudoOwner } from "../../config/index.ts";
import { openEngine } from "../../store/engine/index.ts";

/** A day of data of a busy host may need this much. */
const comfortableDiskBytes = 2 * 1024 ** 3;
/** As long as an id that `coral init` creates. */
const sampleColonyId = "application-environment-1a2b3c";

export async function checkStorage(home: string): Promise<DoctorCheck[]> {
  return [checkHome(home), checkDisk(home), await checkSocketLength(home), await checkDatabase()];
}

/** The closest existing directory: CORAL_HOME is created at the first start. */
function existing(path: string): string {
  return existsSync(path) || dirname(path) === path ? path : existing(dirname(path));
}

export function checkHome(home: string): DoctorCheck {
  const base = { area: "storage", name: "CORAL_HOME" } as const;
  const place = existing(home);
  try {
    accessSync(place, constants.W_OK | constants.X_OK);
  } catch {
    // Not writable: that is the result.
    return { ...base, state: "unavailable", detail: `"${place}" is not writable`, fix: "set CORAL_HOME to a directory of your own" };
  }
  if (place !== home) return { ...base, state: "ok", detail: `"${home}" will be created at the first start` };
  const { uid, mode } = statSync(home);
  const expectedUid = sudoOwner()?.uid ?? process.geteuid?.() ?? uid;
  if (uid !== expectedUid) {
    const fix = `sudo chown -R ${expectedUid} "${home}"`;
    return { ...base, state: "degraded", detail: `"${home}" belongs to user ${uid}, not to ${expectedUid}`, fix };
  }
  if ((mode & 0o077) !== 0) {
    const detail = `"${home}" is accessible to other users (mode ${(mode & 0o777).toString(8)})`;
    return { ...base, state: "degraded", detail, fix: `chmod 700 "${home}"` };
  }
  return { ...base, state: "ok", detail: `"${home}", private` };
}

export function checkDisk(home: string): DoctorCheck {
  const { bavail, bsize } = statfsSync(existing(home));
  const freeBytes = bavail * bsize;
  const base = { area: "storage", name: "free disk", detail: `${formatBytes(freeBytes)} for "${home}"` } as const;
  if (freeBytes >= comfortableDiskBytes) return { ...base, state: "ok" };
  return { ...base, state: "degraded", fix: "free some space, set CORAL_HOME elsewhere, or lower store.max_size" };
}

export async function checkSocketLength(home: string): Promise<DoctorCheck> {
  const base = { area: "storage", name: "socket paths" } as const;
  const colonies = await listLocalColonies(home);
  const ids = colonies.length === 0 ? [sampleColonyId] : colonies;
  const paths = [agentPaths(home).socketFile, ...ids.map((id) => colonyPaths(home, id).socketFile)];
  try {
    for (const path of paths) checkSocketPath(path);
    return { ...base, state: "ok", detail: `the longest has ${Math.max(...paths.map((path) => Buffer.byteLength(path)))} bytes` };
  } catch (error) {
    return { ...base, state: "unavailable", detail: CoralError.from(error).message, fix: "set CORAL_HOME to a shorter path" };
  }
}

async function checkDatabase(): Promise<DoctorCheck> {
  const base = { area: "storage", name: "DuckDB" } as const;
  const directory = mkdtempSync(join(tmpdir(), "coral-doctor-"));
  try {
    await using engine = await openEngine({
      dataDirectories: [directory],
      memoryLimitBytes: 64 * 1024 ** 2,
      threads: 1,
      log: silentLogger,
    });
    await engine.attach("doctor", join(directory, "doctor.duckdb"), []);
    return { ...base, state: "ok", detail: "loads and creates a database" };
  } catch (error) {
    return { ...base, state: "unavailable", detail: CoralError.from(error).message, fix: 'reinstall with "npm run setup"' };
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
