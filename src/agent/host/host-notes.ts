/** What a host sample could not see, as sentences. */

import type { HostSnapshot } from "../../host/index.ts";
import { hiddenReason, plural } from "../discovery/hidden-reason.ts";
import type { HostProcessRow } from "./host-rows.ts";

function processNotes(snapshot: HostSnapshot, rows: readonly HostProcessRow[]): string[] {
  const notes: string[] = [];
  const { processes, processesHidden } = snapshot;
  const uncounted = rows.filter((row) => row.open_files === null).length;
  // Kernel threads have no executable, and no memory of their own.
  const unnamed = rows.filter((row) => row.exe === null && row.rss_bytes > 0).length;
  if (processesHidden) notes.push(`Processes of other users may be invisible: /proc is mounted with hidepid; ${hiddenReason()}`);
  if (processes.tally.denied > 0) notes.push(`${plural(processes.tally.denied, "process", "processes")} cannot be read; ${hiddenReason()}`);
  if (unnamed > 0) notes.push(`Executables of ${unnamed} of the ${rows.length} top processes cannot be read; ${hiddenReason()}`);
  if (uncounted > 0) notes.push(`Open files of ${uncounted} of the ${rows.length} top processes cannot be counted; ${hiddenReason()}`);
  if (processes.cut > 0) notes.push(`${processes.cut} processes were not looked at: there are too many`);
  return notes;
}

function deviceNotes({ mounts, disks, interfaces, cgroups }: HostSnapshot): string[] {
  const notes: string[] = [];
  const [first, ...others] = mounts.unresponsive;
  if (first !== undefined) {
    notes.push(
      `File system "${first}"${others.length > 0 ? ` and ${others.length} more` : ""} did not answer in time: its server may be gone`,
    );
  }
  if (mounts.failed > 0) notes.push(`${plural(mounts.failed, "file system")} refused to say how full`);
  if (mounts.cut > 0) notes.push(`${mounts.cut} file systems were not looked at: there are too many`);
  if (disks.cut > 0) notes.push(`${disks.cut} block devices were not looked at: there are too many`);
  if (interfaces.cut > 0) notes.push(`The ${interfaces.cut} least used network interfaces were left out: there are too many`);
  if (cgroups.cut > 0) notes.push(`${cgroups.cut} control groups were left out: there are too many`);
  if (cgroups.tally.denied > 0) notes.push(`${cgroups.tally.denied} files of control groups cannot be read`);
  return notes;
}

export function hostNotes(snapshot: HostSnapshot, rows: readonly HostProcessRow[], resets: number): string[] {
  const notes = [...processNotes(snapshot, rows), ...deviceNotes(snapshot)];
  const { cpu, memory, io } = snapshot.pressure;
  if (cpu.someUs === null && memory.someUs === null && io.someUs === null) {
    notes.push("Pressure (PSI) is not available: the kernel has none, or was started without psi=1");
  }
  if (snapshot.virtualMemory.oomKills === null) notes.push("Out-of-memory kills are not counted by this kernel: Linux 4.13 or later does");
  if (resets > 0) notes.push(`${resets} kernel counters started again during the last interval; their rates are left out or 0`);
  return notes;
}
