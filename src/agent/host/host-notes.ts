/** Sentences about what a host sample could not see. */

import type { HostSnapshot } from "../../host/index.ts";
import { hiddenReason, plural } from "../discovery/hidden-reason.ts";
import type { HostProcessRow } from "./host-rows.ts";

function processNotes(snapshot: HostSnapshot, rows: readonly HostProcessRow[]): string[] {
  const notes: string[] = [];
  const { processes, processesHidden } = snapshot;
  const uncounted = rows.filter((row) => row.open_files === null).length;
  // Kernel threads have neither an executable nor resident memory.
  const unnamed = rows.filter((row) => row.exe === null && row.rss_bytes > 0).length;
  if (processesHidden) notes.push(`Processes of other users may be invisible: /proc is mounted with hidepid; ${hiddenReason()}`);
  if (processes.tally.denied > 0) notes.push(`${plural(processes.tally.denied, "process", "processes")} cannot be read; ${hiddenReason()}`);
  if (unnamed > 0) notes.push(`Executables of ${unnamed} of the ${rows.length} top processes cannot be read; ${hiddenReason()}`);
  if (uncounted > 0) notes.push(`Open files of ${uncounted} of the ${rows.length} top processes cannot be counted; ${hiddenReason()}`);
  if (processes.cut > 0) notes.push(`${processes.cut} processes above the limit were skipped`);
  return notes;
}

/** Notes about file systems, devices and cgroups: unresponsive, unreadable, or above a limit. */
function deviceNotes({ mounts, disks, interfaces, cgroups }: HostSnapshot): string[] {
  const notes: string[] = [];
  const [first, ...others] = mounts.unresponsive;
  if (first !== undefined) {
    notes.push(
      `File system "${first}"${others.length > 0 ? ` and ${others.length} more` : ""} did not respond in time: its server may be down`,
    );
  }
  if (mounts.failed > 0) notes.push(`${plural(mounts.failed, "file system")} did not report usage`);
  if (mounts.cut > 0) notes.push(`${mounts.cut} file systems above the limit were skipped`);
  if (disks.cut > 0) notes.push(`${disks.cut} block devices above the limit were skipped`);
  if (interfaces.cut > 0) notes.push(`The ${interfaces.cut} least used network interfaces above the limit were skipped`);
  if (cgroups.cut > 0) notes.push(`${cgroups.cut} cgroups above the limit were skipped`);
  if (cgroups.tally.denied > 0) notes.push(`${cgroups.tally.denied} cgroup files cannot be read`);
  return notes;
}

/** One sentence per gap of the last sample, with the fix if there is one. */
export function hostNotes(snapshot: HostSnapshot, rows: readonly HostProcessRow[], resets: number): string[] {
  const notes = [...processNotes(snapshot, rows), ...deviceNotes(snapshot)];
  const { cpu, memory, io } = snapshot.pressure;
  if (cpu.someUs === null && memory.someUs === null && io.someUs === null) {
    notes.push("Pressure (PSI) is not available: the kernel does not support it, or was booted without psi=1");
  }
  if (snapshot.virtualMemory.oomKills === null) notes.push("Out-of-memory kills are not available: they need Linux 4.13 or later");
  if (resets > 0) notes.push(`${resets} kernel counters were reset during the last interval; their rates are missing or 0`);
  return notes;
}
