/** Scores metrics and requests. Resource use is blamed where it occurs; slowness and failures propagate from callee to caller. */

import { type MeasureFact, requestMeasures, type Spread } from "../model/diagnosis.ts";
import { measureKindOf } from "../model/metrics.ts";
import type { CallGraph } from "./call-graph.ts";
import { figure, times } from "./figure-text.ts";
import { medianOf, mirrored, scoreOf, shiftOf } from "./robust-shift.ts";
import type { Suspicion } from "./suspicion.ts";

/** Minimum number of values on each side. */
const minBefore = 3;
/** A movement of a resource matters if it is at least this share of the level at other services of the system. */
const peerPart = { resource: 0.5, latency: 0.1 };
/** Movements that do not matter, by unit. For metrics in other units, only peers give a scale. */
const minMovement: Readonly<Record<string, number>> = { ratio: 0.05, cores: 0.1, By: 64 * 1024 ** 2, us: 2_000 };
/** 0.2 percentage points of requests. */
const minFailures = 0.002;
/** A callee with a lower score explains nothing. */
const minExplaining = 0.3;
/** A callee that moved as much explains nearly all. */
const explainedPart = 0.9;

interface Symptom {
  measure: MeasureFact;
  delta: number;
  score: number;
}

export interface MeasureContext {
  graph: CallGraph;
  isExternal: (service: string) => boolean;
  /** Services with spans, which show more than percentiles do. */
  hasSpans: (service: string) => boolean;
}

export function judgeMeasures(measures: readonly MeasureFact[], context: MeasureContext): Suspicion[] {
  const peers = peerLevels(measures);
  const found: Suspicion[] = [];
  const symptoms = new Map<string, Symptom[]>();
  for (const given of measures) {
    const measure = asFailures(given);
    if (measure === null || measure.before.count < minBefore || measure.after.count === 0) continue;
    const { kind, service, before, after } = measure;
    if (kind === "latency" && context.hasSpans(service) && measure.subject === "") continue;
    if (kind === "resource") {
      const floor = Math.max(peerPart.resource * (peers.get(measure.name) ?? 0), minMovement[measure.unit] ?? 0);
      const score = scoreOf(shiftOf(before, after, floor));
      found.push({ ...suspicionOf(measure, "resource"), score, rawScore: score });
    } else if (kind === "latency" || kind === "errors") {
      const floor =
        kind === "errors"
          ? minFailures * wholeOf(measure)
          : Math.max(peerPart.latency * (peers.get(measure.name) ?? 0), minMovement[measure.unit] ?? 0);
      const score = scoreOf(shiftOf(before, after, floor));
      const symptom = { measure, delta: after.median - before.median, score };
      symptoms.set(service, [...(symptoms.get(service) ?? []), symptom]);
    }
  }
  for (const service of symptoms.keys()) {
    for (const kind of ["latency", "errors"] as const) {
      const own = (symptoms.get(service) ?? []).filter(({ measure }) => measure.kind === kind);
      const worst = own.reduce<Symptom | undefined>((most, one) => (most && most.score >= one.score ? most : one), undefined);
      if (worst === undefined) continue;
      const { part, callee } = explanation(service, kind, own, symptoms, context);
      found.push({
        ...suspicionOf(worst.measure, kind === "latency" ? "slow" : "failing"),
        score: worst.score * (1 - explainedPart * part),
        rawScore: worst.score,
        explainedBy: callee,
      });
    }
  }
  return found;
}

/** The share of a service's symptom that its callees have as well, in the same quantity. */
function explanation(
  service: string,
  kind: "latency" | "errors",
  own: readonly Symptom[],
  symptoms: ReadonlyMap<string, Symptom[]>,
  { graph, isExternal }: MeasureContext,
): { part: number; callee: string } {
  let best = { part: 0, callee: "" };
  if (isExternal(service)) {
    // An address in front of a service, such as a load balancer's, shows what the service behind it does.
    const siblings = graph.callersOf(service).flatMap((caller) => graph.calleesOf(caller));
    const behind = siblings.find(
      (one) =>
        one !== service && !isExternal(one) && (symptoms.get(one) ?? []).some(({ measure, score }) => measure.kind === kind && score > 0.5),
    );
    if (behind !== undefined) best = { part: 1, callee: behind };
  }
  for (const { measure, delta, score } of own) {
    if (score < minExplaining || delta <= 0) continue;
    for (const callee of graph.calleesOf(service)) {
      for (const theirs of symptoms.get(callee) ?? []) {
        if (theirs.measure.name !== measure.name || theirs.score <= minExplaining) continue;
        const part = Math.min(1, theirs.delta / delta);
        if (part > best.part) best = { part, callee };
      }
    }
  }
  return best;
}

/** The median level of each quantity over all services that have it. */
function peerLevels(measures: readonly MeasureFact[]): Map<string, number> {
  const levels = new Map<string, number[]>();
  for (const { name, before } of measures) {
    const known = levels.get(name);
    if (known) known.push(Math.abs(before.median));
    else levels.set(name, [Math.abs(before.median)]);
  }
  return new Map([...levels].map(([name, values]) => [name, medianOf(values)]));
}

/** Converts shares of successes to shares of failures. Null for one that was never reported. */
function asFailures(measure: MeasureFact): MeasureFact | null {
  if (measure.kind !== "errors" || !measureKindOf(measure.name).isSuccess) return measure;
  const { before, after } = measure;
  if (before.median === 0 && after.median === 0) return null;
  const whole = wholeOf(measure);
  return { ...measure, before: mirrored(before, whole), after: mirrored(after, whole), unit: whole === 1 ? "1" : "%" };
}

const highest = ({ q95, median }: Spread): number => Math.max(q95, median);

function wholeOf({ before, after, unit }: MeasureFact): number {
  return unit === "%" || Math.max(highest(before), highest(after)) > 1.5 ? 100 : 1;
}

function suspicionOf(measure: MeasureFact, kind: "resource" | "slow" | "failing"): Suspicion {
  const { service, name, subject, unit, before, after } = measure;
  const what = subject === "" ? name : `${name} of ${subject}`;
  const failing = measureKindOf(name).isSuccess ? `failures (${name})` : what;
  const shown = kind === "failing" ? failing : what;
  return {
    service,
    kind,
    score: 0,
    rawScore: 0,
    pointer: subject === "" ? name : subject,
    statement: statementOf(measure, shown),
    figures: { name: what, unit, before: before.median, after: after.median },
    explainedBy: "",
  };
}

function statementOf({ name, subject, unit, before, after }: MeasureFact, shown: string): string {
  const [usual, now, ratio] = [figure(before.median, unit), figure(after.median, unit), times(before.median, after.median)];
  if (name === requestMeasures.duration) return `${subject} takes ${now}, was ${usual}${ratio}`;
  if (name === requestMeasures.failed) return `${subject} fails ${now} of its requests, was ${usual}`;
  return `${shown}: ${usual} → ${now}${ratio}`;
}
