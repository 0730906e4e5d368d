/** Watches entry services, opens incidents when they breach an objective, diagnoses them, and closes them when the breach is over. */

import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import { type Incident, type IncidentSymptom, incidentId, type Objective, type RequestTotals } from "../../model/incident.ts";
import { type ColonyStore, countIncidents, loadIncidents, loadObjectives, saveIncidents } from "../../store/colony/index.ts";
import { queryRequestTotals } from "../../store/queries/index.ts";
import { type Breach, type Breaches, type ColonyBackend, declaredBreaches, readBreaches, symptomNow } from "../../tools/index.ts";
import { diagnoseIncident, type IncidentDiagnosis, noteChanges, noteDiagnosis } from "./diagnose-incident.ts";
import { type IncidentEventKind, incidentEvent } from "./incident-events.ts";
import { IncidentTracker } from "./incident-tracker.ts";
import { sameIncident } from "./same-incident.ts";

export interface IncidentNames {
  /** Label of an id or other row key. */
  labelOf: (text: string) => string;
  idOf: (text: string) => string;
  /** Row keys of a service, its id first. */
  textsOf: (label: string) => readonly string[];
}

export interface IncidentWatchOptions {
  store: ColonyStore;
  backend: ColonyBackend;
  names: () => Promise<IncidentNames>;
  /** Rises when requests or events arrive. */
  newest: () => number;
  settings: () => { isEnabled: boolean; closeAfterMs: number };
  /** Must not block. */
  notify: (kind: IncidentEventKind, incident: Incident, labelOf: (text: string) => string) => void;
  clock: Clock;
  log: Logger;
}

/** Evaluation intervals without new rows: with a breach or an open incident, and without. */
const quietIntervalMs = 30_000;
const restingIntervalMs = 120_000;
/** Ranges to read; the shortest with enough requests decides. */
const readMs = [30_000, 60_000, 300_000];
/** Diagnoses are expensive: per step at most this many for new incidents, plus one for a known incident. */
const newDiagnosesMax = 3;
/** Times after opening at which an incident is diagnosed again; then every half hour. */
const againMs = [20_000, 60_000, 150_000, 300_000, 900_000];
const laterMs = 1_800_000;
/** How often figures of an open incident are stored when nothing else changes. */
const savedEachMs = 60_000;
const recentMs = 10 * 60_000;
const openMax = 200;

export class IncidentWatch {
  readonly #options: IncidentWatchOptions;
  readonly #tracker: IncidentTracker;
  #objectives: Objective[] = [];
  #isLoaded = false;
  #newest = -1;
  #hasBreaches = false;
  #evaluatedMs = Number.NEGATIVE_INFINITY;
  #names!: IncidentNames;
  readonly #changed = new Map<Incident, IncidentEventKind | null>();
  readonly #savedMs = new Map<number, number>();
  /** Cause named by the last diagnosis of an incident but not adopted. */
  readonly #doubted = new Map<number, string>();

  constructor(options: IncidentWatchOptions) {
    this.#options = options;
    this.#tracker = new IncidentTracker(() => ({ closeAfterMs: options.settings().closeAfterMs }));
  }

  /** Called every five seconds. Evaluates when something arrived, and now and then. */
  async step(signal: AbortSignal): Promise<void> {
    const { clock, settings, newest } = this.#options;
    if (!settings().isEnabled) return;
    if (!this.#isLoaded) await this.#load();
    const nowMs = clock.monotonicMs();
    const isResting = !this.#hasBreaches && this.#tracker.open.length === 0;
    if (newest() === this.#newest && nowMs - this.#evaluatedMs < (isResting ? restingIntervalMs : quietIntervalMs)) return;
    this.#newest = newest();
    this.#evaluatedMs = nowMs;
    await this.#evaluate(signal);
  }

  async #evaluate(signal: AbortSignal): Promise<void> {
    const { store, backend } = this.#options;
    this.#objectives = await loadObjectives(store);
    this.#names = await this.#options.names();
    const names = this.#names;
    const objectives = this.#objectives.map((one) => ({ ...one, service: names.labelOf(one.service) }));
    const seen = await readBreaches(backend, objectives, { signal });
    const totals = await this.#readTotals(seen.nowMs);
    const declared = this.#objectives.flatMap((one) => declaredBreaches({ ...one, service: names.idOf(one.service) }, totals, seen.nowMs));
    const breaches = [...seen.breaches.map((breach) => ({ ...breach, service: this.#id(breach.service) })), ...declared];
    this.#hasBreaches = breaches.length > 0;
    const read = (symptom: IncidentSymptom) => this.#read(symptom, seen, totals);
    const progress = this.#tracker.observe({ nowMs: seen.nowMs, breaches, read });
    for (const incident of progress.updated) this.#note(incident, "incident-updated");
    for (const incident of progress.closed) this.#note(incident, "incident-closed");
    await this.#open(progress.ready, seen, signal);
    await this.#diagnoseAgain(seen, signal);
    await this.#save(seen.nowMs);
  }

  /** Requests of services with symptoms or declared objectives, by id, for each of `readMs`. */
  async #readTotals(nowMs: number): Promise<RequestTotals[][]> {
    const ids = [
      ...this.#tracker.open.flatMap(({ symptoms }) => symptoms.map(({ service }) => service)),
      ...this.#objectives.map(({ service }) => service),
    ];
    const services = [...new Set(ids.flatMap((id) => this.#names.textsOf(id)))];
    const ranges = readMs.map((ms) => ({ fromMs: nowMs - ms, untilMs: nowMs + 1_000 }));
    const rows = await queryRequestTotals(this.#options.store, { services, ranges });
    return readMs.map((_, range) =>
      rows.flatMap((row) => (row.range === range ? [{ ...row, service: this.#names.idOf(row.service) }] : [])),
    );
  }

  #read(symptom: IncidentSymptom, { health }: Breaches, totals: readonly (readonly RequestTotals[])[]) {
    if (symptom.measure === "down") {
      const now = health.get(this.#names.labelOf(symptom.service));
      return now === undefined || now === "unknown" ? null : { value: null, isBad: false };
    }
    const own = totals.map((rows) => rows.filter(({ service }) => service === symptom.service));
    return symptomNow(symptom, own);
  }

  async #open(ready: readonly Breach[][], seen: Breaches, signal: AbortSignal): Promise<void> {
    const calls = seen.calls.map(({ service, callee }) => ({ service: this.#id(service), callee: this.#id(callee) }));
    let diagnoses = 0;
    for (const breaches of ready) {
      const service = breaches[0]?.service ?? "";
      const startedMs = Math.min(...breaches.map((breach) => breach.startedMs));
      // When much fails at once, merge services that depend on a known cause; defer the rest to the next step.
      const isMuch = ++diagnoses > newDiagnosesMax;
      const found = isMuch ? null : await this.#diagnose(service, startedMs, seen, signal);
      const trouble = { service, startedMs, cause: found?.cause ?? null };
      const same = sameIncident(trouble, this.#tracker.open, calls);
      if (same) {
        this.#tracker.join(same, breaches, seen.nowMs, this.#names.labelOf(service));
        this.#note(same, "incident-updated");
      } else if (!isMuch) this.#start(breaches, found, seen);
    }
  }

  #start(breaches: readonly Breach[], found: IncidentDiagnosis | null, seen: Breaches): void {
    const incident = this.#tracker.start(breaches, seen.nowMs);
    if (found) noteDiagnosis(incident, found, seen.nowMs, false);
    noteChanges(incident, seen.events, (label) => this.#id(label));
    this.#note(incident, "incident-opened");
  }

  /** The incident with the oldest diagnosis. */
  async #diagnoseAgain(seen: Breaches, signal: AbortSignal): Promise<void> {
    const due = this.#tracker.open
      .filter((incident) => incident.endedMs === null && seen.nowMs >= nextDiagnosisMs(incident))
      .sort((a, b) => (a.diagnosedMs ?? 0) - (b.diagnosedMs ?? 0))[0];
    if (!due) return;
    const found = await this.#diagnose(due.symptoms[0]?.service ?? "", due.startedMs, seen, signal);
    due.diagnosedMs = seen.nowMs;
    if (!found) return;
    const named = found.cause === null ? "" : `${found.cause.service} ${found.cause.kind}`;
    const isNews = noteDiagnosis(due, found, seen.nowMs, this.#doubted.get(due.number) === named && named !== "");
    this.#doubted.set(due.number, named);
    noteChanges(due, seen.events, (label) => this.#id(label));
    this.#note(due, isNews ? "incident-updated" : null);
    if (isNews) this.#mergeWhatIsOne(due, seen.nowMs);
  }

  #mergeWhatIsOne(incident: Incident, nowMs: number): void {
    const trouble = { service: incident.symptoms[0]?.service ?? "", startedMs: incident.startedMs, cause: incident.cause };
    const others = this.#tracker.open.filter((one) => one !== incident && one.cause !== null);
    const same = sameIncident(trouble, others, []);
    if (!same) return;
    const [whole, part] = same.number < incident.number ? [same, incident] : [incident, same];
    this.#tracker.merge(part, whole, nowMs);
    this.#note(whole, "incident-updated");
    this.#note(part, "incident-closed");
  }

  async #diagnose(service: string, startedMs: number, seen: Breaches, signal: AbortSignal): Promise<IncidentDiagnosis | null> {
    const about = { label: this.#names.labelOf(service), fromMs: startedMs, untilMs: seen.nowMs, idOf: (label: string) => this.#id(label) };
    try {
      return await diagnoseIncident(this.#options.backend, about, signal);
    } catch (error) {
      if (signal.aborted) throw error;
      // Keep the incident without a cause; the next diagnosis may succeed.
      this.#options.log.warn(`cannot diagnose ${about.label}; will try again`, { error });
      return null;
    }
  }

  #id(label: string): string {
    return this.#names.textsOf(label)[0] ?? label;
  }

  /** At most one event per step: the opening event includes everything that joined. */
  #note(incident: Incident, kind: IncidentEventKind | null): void {
    const before = this.#changed.get(incident);
    this.#changed.set(incident, before === "incident-opened" || kind === null ? (before ?? kind) : kind);
  }

  async #save(nowMs: number): Promise<void> {
    for (const incident of this.#tracker.open)
      if (!this.#changed.has(incident) && nowMs - (this.#savedMs.get(incident.number) ?? 0) >= savedEachMs)
        this.#changed.set(incident, null);
    const changed = [...this.#changed];
    this.#changed.clear();
    for (const [incident] of changed) incident.updatedMs = nowMs;
    const labelOf = (text: string): string => this.#names.labelOf(text);
    const reported = changed.flatMap(([incident, kind]) => (kind === null ? [] : [{ incident, kind }]));
    const events = reported.map(({ incident, kind }) => incidentEvent(kind, incident, labelOf, nowMs));
    try {
      await saveIncidents(this.#options.store, { incidents: changed.map(([incident]) => incident), events, nowMs });
    } catch (error) {
      // Retry at the next step: the disk may have space again.
      for (const [incident, kind] of changed) this.#note(incident, kind);
      throw error;
    }
    for (const [incident] of changed) this.#savedMs.set(incident.number, nowMs);
    for (const { message } of events) this.#options.log.info(message);
    for (const { incident, kind } of reported) this.#options.notify(kind, incident, labelOf);
    for (const number of [...this.#savedMs.keys(), ...this.#doubted.keys()])
      if (!this.#tracker.open.some((incident) => incident.number === number)) {
        this.#savedMs.delete(number);
        this.#doubted.delete(number);
      }
  }

  async #load(): Promise<void> {
    const { store, clock } = this.#options;
    const [open, recent, { last }] = await Promise.all([
      loadIncidents(store, { state: "open", limit: openMax }),
      loadIncidents(store, { state: "closed", fromMs: clock.wallMs() - recentMs, limit: openMax }),
      countIncidents(store),
    ]);
    this.#tracker.load([...open, ...recent], last);
    if (open.length > 0) this.#options.log.info(`still open: ${open.map(({ number }) => incidentId(number)).join(", ")}`);
    this.#isLoaded = true;
  }
}

function nextDiagnosisMs({ openedMs, diagnosedMs }: Incident): number {
  const step = againMs.find((ms) => openedMs + ms > (diagnosedMs ?? openedMs));
  return step === undefined ? (diagnosedMs ?? 0) + laterMs : openedMs + step;
}
