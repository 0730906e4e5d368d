/** Messages of events about deployments. */

import { formatDurationMs } from "../../base/units.ts";
import type { DeploymentRecord } from "../../store/queries/index.ts";
import { type BuildReport, type DeploymentState, deployedText, reasonOf, sharesText, whatWasDeployed } from "../../tools/index.ts";

export interface DeploymentEvent {
  kind: string;
  atMs: number;
  message: string;
  details: Record<string, unknown>;
}

const movedKinds: Record<Exclude<DeploymentState, "rolling">, string> = {
  complete: "deployment-complete",
  "rolled-back": "deployment-rolled-back",
  variant: "deployment-variant",
};

export class DeploymentEvents {
  readonly #labelOf: (service: string) => string;

  constructor(labelOf: (service: string) => string) {
    this.#labelOf = labelOf;
  }

  /** A deployment was detected. */
  found(record: DeploymentRecord): DeploymentEvent {
    const marked = record.note === "" ? "" : ` (${record.note})`;
    return this.#event("deployment", record.startedMs, record, `${deployedText(rolloutOf(record))}${marked}`);
  }

  /** Its rollout ended; null while it is in progress. */
  moved(record: DeploymentRecord, nowMs: number): DeploymentEvent[] {
    const { endedMs, startedMs } = record;
    const state = record.state as DeploymentState;
    if (state === "rolling") return [];
    const atMs = state === "variant" ? nowMs : (endedMs ?? nowMs);
    const afterMs = Math.max(0, Math.round((atMs - startedMs) / 1_000) * 1_000);
    const words = {
      complete: `finished its rollout after ${formatDurationMs(afterMs)}: ${whatWasDeployed(record)}`,
      "rolled-back": `${deployedText(rolloutOf(record))}, after ${formatDurationMs(afterMs)}`,
      variant: `runs builds permanently side by side, which counts as variants and not as a deployment: ${sharesText(rolloutOf(record))}`,
    }[state];
    return [this.#event(movedKinds[state], atMs, record, words)];
  }

  /** The verdict turned to a regression or back; empty otherwise. */
  judged(before: DeploymentRecord, after: DeploymentRecord, nowMs: number): DeploymentEvent[] {
    const details = { before: before.verdict, after: after.verdict };
    if (after.verdict === "regression" && before.verdict !== "regression") {
      const report = after.report === null ? null : (JSON.parse(after.report) as BuildReport);
      const reason = reasonOf(after.verdict, report, after.isComplete);
      const message = `is worse since ${whatWasDeployed(after)}: ${reason}`;
      return [this.#event("deployment-regression", nowMs, after, message, details)];
    }
    if (before.verdict === "regression" && after.verdict !== "regression") {
      const message = `is not worse since ${whatWasDeployed(after)} after all: later data shows no regression`;
      return [this.#event("deployment-recovered", nowMs, after, message, details)];
    }
    return [];
  }

  #event(kind: string, atMs: number, record: DeploymentRecord, message: string, more: Record<string, unknown> = {}): DeploymentEvent {
    const { id, service, foundBy, build, previousBuild, version, previousVersion, note, state } = record;
    const facts = { service, deployment: id, foundBy, build, previousBuild, version, previousVersion, note, state };
    return { kind, atMs, message: `${this.#labelOf(service)} ${message}`, details: { ...facts, ...more } };
  }
}

function rolloutOf(record: DeploymentRecord) {
  return { ...record, state: record.state as DeploymentState };
}
