/** Compares scans and reports what changed: a service restarted, exited, or runs another program. Does no I/O. */

import type { DiscoveryScan, ExecutableBuild, ExecutableFile, ProcessFacts } from "../../host/index.ts";
import type { event, RowOf, SampleTime } from "../../store/signals/index.ts";
import type { ServiceInstance } from "./service-instances.ts";

export type EventRow = RowOf<typeof event.columns>;

export interface ServiceLifecycle {
  /** Events since the previous scan; none for the first scan, which is the baseline. */
  eventsOf(instances: readonly ServiceInstance[], scan: LifecycleScan, time: SampleTime): EventRow[];
  /** A process has exited and may be restarting: scan again soon. */
  readonly awaitsRestart: boolean;
}

/** The part of a scan that is used here. */
export type LifecycleScan = Pick<DiscoveryScan, "buildOf" | "fileOnDisk" | "processOf" | "isEphemeral">;

/** One main process of a service at a port: a master, not its workers. */
interface Root {
  facts: ProcessFacts;
  build: ExecutableBuild | null;
  sinceMs: number;
  /** The file now at the path it was started from. */
  diskKey: string | null;
  /** Scans spent waiting for the new file's hash. */
  diskWaits: number;
}

interface Watched {
  /** The id. */
  service: string;
  /** For messages: as of the last scan that saw it. */
  name: string;
  protocol: string | null;
  port: number | null;
  roots: Map<string, Root>;
  /** All processes of the previous scan, workers included. */
  members: Set<string>;
  /** Main processes that exited before the previous scan and were not replaced. */
  missing: Root[];
  /** The last known build. */
  build: ExecutableBuild | null;
}

/** Services tracked; more have no events. */
const maxWatched = 10_000;
/** A worker without a port that lived shorter was a finished task: no event. */
const minWorkerAgeMs = 600_000;
/** Tests and tools listen briefly on an ephemeral port: no event. */
const minEphemeralAgeMs = 60_000;
/** A file without a build id is hashed after the scan that saw it; its event waits this many scans. */
const maxDiskWaits = 3;

function idOf({ entry }: ProcessFacts): string {
  return `${entry.pid} ${entry.startTicks}`;
}

/** Compares main processes only: a worker that exits and is replaced is not an event. */
export function createServiceLifecycle(): ServiceLifecycle {
  const watched = new Map<string, Watched>();
  let isFirst = true;
  let awaitsRestart = false;

  const eventsOf = (instances: readonly ServiceInstance[], scan: LifecycleScan, time: SampleTime): EventRow[] => {
    const events: EventRow[] = [];
    const now = groupByService(instances);
    const running = processesByService(instances);
    awaitsRestart = false;
    for (const [key, group] of now) {
      const before = watched.get(key);
      if (before) before.name = group.name;
      if (!before) {
        if (watched.size < maxWatched) watched.set(key, begin(group, scan, time));
        continue;
      }
      events.push(...compare(before, group, { scan, time, running }));
    }
    for (const [key, before] of watched) {
      if (now.has(key)) continue;
      events.push(...compare(before, { ...before, members: new Map() }, { scan, time, running }));
      if (before.roots.size === 0 && before.missing.length === 0) watched.delete(key);
    }
    for (const { missing } of watched.values()) awaitsRestart ||= missing.length > 0;
    const result = isFirst ? [] : withoutRepeats(events);
    isFirst = false;
    return result;
  };
  return {
    eventsOf,
    get awaitsRestart() {
      return awaitsRestart;
    },
  };
}

/** A process with two ports restarts once. */
function withoutRepeats(events: readonly EventRow[]): EventRow[] {
  const seen = new Set<string>();
  return events.filter(({ kind, service, pid }) => {
    const key = `${kind} ${service} ${pid}`;
    return !seen.has(key) && seen.add(key);
  });
}

interface Group {
  service: string;
  name: string;
  protocol: string | null;
  port: number | null;
  members: Map<string, ProcessFacts>;
}

/** Instances by service and port. The namespace is not part of the key: a restarted container gets a new one. */
function groupByService(instances: readonly ServiceInstance[]): Map<string, Group> {
  const groups = new Map<string, Group>();
  for (const { name, protocol, port, facts } of instances) {
    if (!facts) continue;
    const key = `${name.service} ${protocol} ${port}`;
    let group = groups.get(key);
    if (!group) {
      group = { service: name.service, name: name.name, protocol, port, members: new Map() };
      groups.set(key, group);
    }
    group.members.set(idOf(facts), facts);
  }
  return groups;
}

/** Processes whose parent is not one of them. */
function rootsOf({ members }: Group): ProcessFacts[] {
  const pids = new Set([...members.values()].map(({ entry }) => entry.pid));
  return [...members.values()].filter(({ entry }) => !pids.has(entry.parentPid));
}

function rootOf(facts: ProcessFacts, scan: LifecycleScan, time: SampleTime): Root {
  return { facts, build: scan.buildOf(facts), sinceMs: time.mono_ms, diskKey: scan.fileOnDisk(facts)?.key ?? null, diskWaits: 0 };
}

function begin(group: Group, scan: LifecycleScan, time: SampleTime): Watched {
  const roots = new Map(rootsOf(group).map((facts) => [idOf(facts), rootOf(facts, scan, time)]));
  const build = [...roots.values()].find((root) => root.build !== null)?.build ?? null;
  const { service, name, protocol, port } = group;
  return { service, name, protocol, port, roots, members: new Set(group.members.keys()), missing: [], build };
}

/** What a comparison needs besides both groups. */
interface Now {
  scan: LifecycleScan;
  time: SampleTime;
  /** By service: its processes at all ports. */
  running: ReadonlyMap<string, ReadonlyMap<string, ServiceInstance>>;
}

function processesByService(instances: readonly ServiceInstance[]): Map<string, Map<string, ServiceInstance>> {
  const running = new Map<string, Map<string, ServiceInstance>>();
  for (const instance of instances) {
    if (!instance.facts) continue;
    const processes = running.get(instance.name.service) ?? new Map<string, ServiceInstance>();
    running.set(instance.name.service, processes.set(idOf(instance.facts), instance));
  }
  return running;
}

/** Compares the processes of one service in two scans. Processes are identified by pid and start time. */
function compare(before: Watched, group: Group, now: Now): EventRow[] {
  const { scan, time } = now;
  const events: EventRow[] = [];
  const current = rootsOf(group);
  const gone: Root[] = [];
  for (const [id, root] of before.roots) {
    if (group.members.has(id)) continue;
    before.roots.delete(id);
    // The process may only have another name, or no port any more: that is not an exit.
    if (scan.processOf(root.facts.entry.pid)?.startTicks !== root.facts.entry.startTicks) gone.push(root);
  }
  const fresh: Root[] = [];
  for (const facts of current) {
    const id = idOf(facts);
    const known = before.roots.get(id);
    if (known) {
      events.push(...checkBinary(before, known, facts, scan, time));
      continue;
    }
    const root = rootOf(facts, scan, time);
    before.roots.set(id, root);
    // A worker whose master has exited is a main process now, but not a new one.
    if (!before.members.has(id)) fresh.push(root);
  }
  events.push(...pairUp(before, gone, fresh, now));
  before.members = new Set(group.members.keys());
  return events;
}

/** Pairs exited with new processes: each pair is a restart. An exited process without a partner waits for one more scan. */
function pairUp(watched: Watched, gone: Root[], fresh: Root[], now: Now): EventRow[] {
  const { scan, time } = now;
  const events: EventRow[] = [];
  const candidates = [...watched.missing, ...gone].filter((root) => fresh.length > 0 || isWorthAnEvent(watched, root, scan, time));
  const missedBefore = new Set(watched.missing);
  watched.missing = [];
  for (const before of candidates) {
    const after = fresh.shift();
    if (after) {
      events.push(restarted(watched, before, after, time), ...updated(watched, before.build, after, time));
      continue;
    }
    if (missedBefore.has(before)) events.push(exited(watched, before, now));
    else watched.missing.push(before);
  }
  for (const root of fresh) watched.build = root.build ?? watched.build;
  return events;
}

function isWorthAnEvent({ port }: Watched, root: Root, scan: LifecycleScan, time: SampleTime): boolean {
  const ageMs = time.mono_ms - root.sinceMs;
  if (port === null) return ageMs >= minWorkerAgeMs;
  return !scan.isEphemeral(port) || ageMs >= minEphemeralAgeMs;
}

/** Checks a running process: its build became known, it executed another program, or its file was replaced on disk. */
function checkBinary(watched: Watched, root: Root, facts: ProcessFacts, scan: LifecycleScan, time: SampleTime): EventRow[] {
  const events: EventRow[] = [];
  const build = scan.buildOf(facts);
  const isOtherFile = root.facts.file?.key !== facts.file?.key;
  root.facts = facts;
  if (build && (root.build === null || isOtherFile)) {
    root.build = build;
    events.push(...updated(watched, watched.build, root, time));
  }
  const disk = scan.fileOnDisk(facts);
  if (disk && disk.key !== root.diskKey) events.push(...diskChanged(watched, root, disk, time));
  return events;
}

/** The file at the path differs from the running one: reported once per replaced file. */
function diskChanged(watched: Watched, root: Root, disk: ExecutableFile, time: SampleTime): EventRow[] {
  if (disk.key !== root.facts.file?.key && disk.build === null && root.diskWaits++ < maxDiskWaits) return [];
  root.diskKey = disk.key;
  root.diskWaits = 0;
  // The same build: the file was copied or touched.
  if (disk.key === root.facts.file?.key || (disk.build !== null && disk.build.id === root.build?.id)) return [];
  const { pid } = root.facts.entry;
  const details = {
    where: "disk",
    before: describe(root),
    after: { pid, exe: root.facts.exe, build: disk.build?.id ?? null, buildKind: disk.build?.kind ?? null },
  };
  const message = `The program of ${watched.name} was replaced on disk: pid ${pid} still runs ${shortBuild(root.build)}, the file is ${shortBuild(disk.build)}`;
  return [eventRow("binary-updated", "info", watched, pid, message, details, time)];
}

function restarted(watched: Watched, before: Root, after: Root, time: SampleTime): EventRow {
  const isUpdate = before.build !== null && after.build !== null && before.build.id !== after.build.id;
  const { pid } = after.facts.entry;
  const message = `${watched.name} restarted: pid ${before.facts.entry.pid} is now ${pid}${isUpdate ? ", with another build" : ""}`;
  return eventRow(
    "service-restarted",
    isUpdate ? "info" : "warning",
    watched,
    pid,
    message,
    { before: describe(before), after: describe(after) },
    time,
  );
}

/** An event when the process runs another build than the service's last known one. */
function updated(watched: Watched, known: ExecutableBuild | null, after: Root, time: SampleTime): EventRow[] {
  const before = known ?? watched.build;
  const { build } = after;
  if (build) watched.build = build;
  if (!build || !before || before.id === build.id) return [];
  const { pid } = after.facts.entry;
  const details = { where: "process", before: { build: before.id, buildKind: before.kind }, after: describe(after) };
  const message = `${watched.name} runs another program: ${shortBuild(build)} instead of ${shortBuild(before)} (pid ${pid})`;
  return [eventRow("binary-updated", "info", watched, pid, message, details, time)];
}

/** An error if the service has no process left, info if a successor runs, otherwise a warning. */
function exited(watched: Watched, before: Root, { scan, time, running }: Now): EventRow {
  const others = [...(running.get(watched.service)?.values() ?? [])];
  const successor = others.find((other) => isSuccessor(other, before, watched, scan));
  const remaining = others.length;
  const { pid } = before.facts.entry;
  const rest = successor
    ? `; pid ${successor.facts?.entry.pid}${successor.port === null ? "" : ` on port ${successor.port}`} has replaced it`
    : remaining > 0
      ? `; ${remaining} other ${remaining === 1 ? "process remains" : "processes remain"}`
      : ", and nothing replaced it";
  const message = `${watched.name} exited: pid ${pid} is gone${rest}`;
  return eventRow(
    "service-exited",
    successor ? "info" : remaining > 0 ? "warning" : "error",
    watched,
    pid,
    message,
    { before: describe(before), after: null, remaining },
    time,
  );
}

/** A younger process of the service with another build, at another port: the green one of blue and green. */
function isSuccessor({ facts, port }: ServiceInstance, before: Root, watched: Watched, scan: LifecycleScan): boolean {
  if (!facts || port === watched.port || facts.entry.startTicks <= before.facts.entry.startTicks) return false;
  const build = scan.buildOf(facts);
  return build !== null && before.build !== null && build.id !== before.build.id;
}

function describe({ facts, build }: Root): Record<string, unknown> {
  const { entry, exe } = facts;
  return {
    pid: entry.pid,
    startTicks: entry.startTicks,
    exe,
    build: build?.id ?? null,
    buildKind: build?.kind ?? null,
    commandLine: facts.commandLine,
  };
}

function shortBuild(build: ExecutableBuild | null): string {
  return build ? `build ${build.id.slice(0, 12)}` : "an unknown build";
}

function eventRow(
  kind: string,
  severity: string,
  { service, protocol, port }: Watched,
  pid: number,
  message: string,
  details: Record<string, unknown>,
  time: SampleTime,
): EventRow {
  return { ...time, kind, severity, service, pid, message, details: JSON.stringify({ port, protocol, ...details }) };
}
