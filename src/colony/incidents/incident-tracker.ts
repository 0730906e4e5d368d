/**
 * The state machine of incidents, without store or clock. Breaches of objectives open incidents, keep them open and add symptoms;
 * readings below the limits, which are fixed at opening, close them. Services are ids here.
 */

import { formatDurationMs } from "../../base/units.ts";
import { type Incident, type IncidentMoment, type IncidentSymptom, incidentId } from "../../model/incident.ts";
import type { Breach } from "../../tools/index.ts";

export interface TrackerSettings {
  /** How long all indicators must stay within limits before closing. */
  closeAfterMs: number;
}

export interface Observation {
  nowMs: number;
  breaches: readonly Breach[];
  /** Current value of a symptom that is not among the breaches; null: unknown, such as without requests. */
  read: (symptom: IncidentSymptom) => { value: number | null; isBad: boolean } | null;
}

export interface Progress {
  /** Services with confirmed breaches but no incident yet, worst first. */
  ready: Breach[][];
  opened: Incident[];
  updated: Incident[];
  closed: Incident[];
}

/** A warning opens an incident when it repeats after this time; a critical breach at once. */
const confirmMs = 9_000;
/** Maximum age of a breach that can be confirmed. */
const forgottenMs = 60_000;
/** A recurrence within this time reopens the incident. */
const reopenMs = 10 * 60_000;
/** An incident without requests closes after this time. */
const silentMs = 15 * 60_000;
const symptomsMax = 20;
const timelineMax = 60;

export class IncidentTracker {
  readonly #settings: () => TrackerSettings;
  readonly #open = new Map<number, Incident>();
  /** Recently closed incidents, which may reopen. */
  readonly #recent = new Map<number, Incident>();
  readonly #pending = new Map<string, { firstMs: number; lastMs: number }>();
  #last = 0;

  constructor(settings: () => TrackerSettings) {
    this.#settings = settings;
  }

  /** Restores state at start; `last` is the highest number in use. */
  load(incidents: readonly Incident[], last: number): void {
    this.#last = last;
    for (const incident of incidents) (incident.state === "open" ? this.#open : this.#recent).set(incident.number, incident);
  }

  /** Oldest first. */
  get open(): Incident[] {
    return [...this.#open.values()].sort((a, b) => a.number - b.number);
  }

  get isQuiet(): boolean {
    return this.#open.size === 0 && this.#pending.size === 0;
  }

  observe({ nowMs, breaches, read }: Observation): Progress {
    const progress: Progress = { ready: [], opened: [], updated: [], closed: [] };
    const seen = new Set<string>();
    const ready = new Map<string, Breach[]>();
    for (const breach of breaches) {
      seen.add(keyOf(breach));
      const incident = this.#incidentOf(breach, nowMs, progress);
      if (incident) {
        if (addBreach(incident, breach, nowMs)) changed(progress.updated, incident);
      } else if (this.#isConfirmed(breach, nowMs)) ready.set(breach.service, [...(ready.get(breach.service) ?? []), breach]);
    }
    // Other breaches of the service join the confirmed one.
    progress.ready = [...ready.keys()].map((service) => breaches.filter((breach) => breach.service === service));
    for (const [key, { lastMs }] of this.#pending) if (nowMs - lastMs > forgottenMs) this.#pending.delete(key);
    for (const incident of this.open) this.#follow(incident, { nowMs, seen, read }, progress);
    for (const [number, { closedMs }] of this.#recent) if (nowMs - (closedMs ?? 0) > reopenMs) this.#recent.delete(number);
    return progress;
  }

  /** Opens an incident for one service. */
  start(breaches: readonly Breach[], nowMs: number): Incident {
    this.#last++;
    const [first] = breaches;
    const startedMs = Math.min(...breaches.map((breach) => breach.startedMs));
    const incident: Incident = {
      number: this.#last,
      state: "open",
      severity: breaches.some(({ severity }) => severity === "critical") ? "critical" : "warning",
      startedMs,
      openedMs: nowMs,
      updatedMs: nowMs,
      endedMs: null,
      closedMs: null,
      symptoms: [],
      cause: null,
      ruledOut: [],
      next: [],
      changes: [],
      evidence: [],
      diagnosedMs: null,
      mergedInto: null,
      timeline: [
        { atMs: startedMs, kind: "started", text: first?.message ?? "" },
        { atMs: nowMs, kind: "opened", text: `${incidentId(this.#last)} opened` },
      ],
    };
    for (const breach of breaches) addBreach(incident, breach, nowMs, false);
    this.#open.set(incident.number, incident);
    return incident;
  }

  /** Adds symptoms of another service with the same cause. */
  join(incident: Incident, breaches: readonly Breach[], nowMs: number, label: string): void {
    for (const breach of breaches) addBreach(incident, breach, nowMs, false);
    incident.startedMs = Math.min(incident.startedMs, ...breaches.map(({ startedMs }) => startedMs));
    if (breaches.some(({ severity }) => severity === "critical")) incident.severity = "critical";
    addMoment(incident, { atMs: nowMs, kind: "symptom", text: `${label} is affected too: ${breaches[0]?.message ?? ""}` });
  }

  /** Merges `part` into the older `whole`, which has the same cause. */
  merge(part: Incident, whole: Incident, nowMs: number): void {
    for (const symptom of part.symptoms)
      if (whole.symptoms.length < symptomsMax && !whole.symptoms.some((one) => keyOf(one) === keyOf(symptom))) whole.symptoms.push(symptom);
    whole.startedMs = Math.min(whole.startedMs, part.startedMs);
    if (part.severity === "critical") whole.severity = "critical";
    addMoment(whole, { atMs: nowMs, kind: "merged", text: `${incidentId(part.number)} has the same cause; merged into this incident` });
    part.state = "merged";
    part.mergedInto = whole.number;
    part.closedMs = nowMs;
    addMoment(part, { atMs: nowMs, kind: "merged", text: `merged into ${incidentId(whole.number)}, which has the same cause` });
    this.#open.delete(part.number);
  }

  #incidentOf(breach: Breach, nowMs: number, progress: Progress): Incident | undefined {
    const concerns = ({ symptoms }: Incident): boolean => symptoms.some(({ service }) => service === breach.service);
    const open = this.open.find(concerns);
    if (open) return open;
    const returned = [...this.#recent.values()].find(
      (one) =>
        one.state === "closed" && one.symptoms.some(({ service, measure }) => service === breach.service && measure === breach.measure),
    );
    if (!returned) return undefined;
    this.#recent.delete(returned.number);
    this.#open.set(returned.number, returned);
    Object.assign(returned, { state: "open", endedMs: null, closedMs: null });
    addMoment(returned, { atMs: nowMs, kind: "returned", text: `recurred: ${breach.message}` });
    changed(progress.updated, returned);
    return returned;
  }

  #isConfirmed(breach: Breach, nowMs: number): boolean {
    const key = keyOf(breach);
    const known = this.#pending.get(key);
    const pending = known && nowMs - known.lastMs <= forgottenMs ? { ...known, lastMs: nowMs } : { firstMs: nowMs, lastMs: nowMs };
    this.#pending.set(key, pending);
    return breach.severity === "critical" || nowMs - pending.firstMs >= confirmMs;
  }

  #follow(
    incident: Incident,
    { nowMs, seen, read }: Pick<Observation, "nowMs" | "read"> & { seen: ReadonlySet<string> },
    progress: Progress,
  ): void {
    for (const symptom of incident.symptoms) if (!seen.has(keyOf(symptom))) follow(symptom, read(symptom), nowMs);
    const { symptoms } = incident;
    const lastBadMs = Math.max(...symptoms.map((symptom) => symptom.lastBadMs));
    const isOver = symptoms.every(({ okSinceMs }) => okSinceMs !== null);
    if (isOver && incident.endedMs === null) {
      incident.endedMs = lastBadMs;
      addMoment(incident, { atMs: nowMs, kind: "recovered", text: "all indicators within limits; monitoring" });
      changed(progress.updated, incident);
    } else if (!isOver && incident.endedMs !== null) {
      incident.endedMs = null;
      addMoment(incident, { atMs: nowMs, kind: "returned", text: "exceeds limits again" });
      changed(progress.updated, incident);
    }
    const okSinceMs = Math.max(...symptoms.map((symptom) => symptom.okSinceMs ?? Number.POSITIVE_INFINITY));
    const isSilent = nowMs - lastBadMs >= silentMs && symptoms.every((symptom) => symptom.okSinceMs !== null || read(symptom) === null);
    if (nowMs - okSinceMs < this.#settings().closeAfterMs && !isSilent) return;
    if (!isOver && !isSilent) return;
    this.#close(incident, { nowMs, lastBadMs, isOver });
    changed(progress.closed, incident);
    progress.updated = progress.updated.filter((one) => one !== incident);
  }

  #close(incident: Incident, { nowMs, lastBadMs, isOver }: { nowMs: number; lastBadMs: number; isOver: boolean }): void {
    Object.assign(incident, { state: "closed", endedMs: lastBadMs, closedMs: nowMs, updatedMs: nowMs });
    const lasted = formatDurationMs(Math.max(0, Math.round((lastBadMs - incident.startedMs) / 1_000) * 1_000));
    const why = isOver ? "all indicators stayed within limits" : `no requests for ${formatDurationMs(silentMs)}`;
    addMoment(incident, { atMs: nowMs, kind: "closed", text: `closed after ${lasted}: ${why}` });
    this.#open.delete(incident.number);
    this.#recent.set(incident.number, incident);
  }
}

function keyOf({ service, route, measure }: Pick<Breach, "service" | "route" | "measure">): string {
  return JSON.stringify([service, route, measure]);
}

function changed(list: Incident[], incident: Incident): void {
  if (!list.includes(incident)) list.push(incident);
}

export function addMoment(incident: Incident, moment: IncidentMoment): void {
  incident.updatedMs = moment.atMs;
  incident.timeline.push(moment);
  // Drop from the middle: the beginning explains most.
  if (incident.timeline.length > timelineMax) incident.timeline.splice(timelineMax / 2, 1);
}

/** True for another objective or a worse severity. */
function addBreach(incident: Incident, breach: Breach, nowMs: number, hasMoment = true): boolean {
  const known = incident.symptoms.find((one) => keyOf(one) === keyOf(breach));
  const worse = breach.severity === "critical" && incident.severity === "warning";
  if (worse) incident.severity = "critical";
  if (known) {
    Object.assign(known, { now: breach.now, lastBadMs: nowMs, okSinceMs: null });
    if ((breach.now ?? 0) > (known.worst ?? 0)) Object.assign(known, { worst: breach.now, message: breach.message });
    return worse;
  }
  if (incident.symptoms.length >= symptomsMax) return false;
  const { service, route, measure, isDeclared, usual, limit, now, message, startedMs } = breach;
  incident.symptoms.push({
    service,
    route,
    measure,
    isDeclared,
    usual,
    limit,
    worst: now,
    now,
    message,
    startedMs,
    lastBadMs: nowMs,
    okSinceMs: null,
  });
  if (hasMoment) addMoment(incident, { atMs: nowMs, kind: "symptom", text: message });
  return true;
}

function follow(symptom: IncidentSymptom, reading: ReturnType<Observation["read"]>, nowMs: number): void {
  if (reading === null) return;
  symptom.now = reading.value;
  if (reading.isBad) {
    Object.assign(symptom, { lastBadMs: nowMs, okSinceMs: null });
    if ((reading.value ?? 0) > (symptom.worst ?? 0)) symptom.worst = reading.value;
  } else symptom.okSinceMs ??= nowMs;
}
