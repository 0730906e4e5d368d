/** Notes about time that agents did not observe and rows that retention removed, bounded in number. */

import { formatDurationMs } from "../../base/units.ts";
import type { UnobservedFact, UnobservedReason } from "../../model/events.ts";
import type { AgentInfo } from "../schemas/agent.ts";
import type { CompletenessNote } from "../schemas/completeness.ts";
import type { CoverageFacts } from "./backend.ts";

/** Hosts that get their own note, and hosts named in a list. */
const hostsShown = 3;
/** A host that joins within this time of its colony's start gets no note. */
const joinToleranceMs = 1_000;

const reasonTexts: Record<UnobservedReason, string> = {
  stopped: "its agent was stopped",
  killed: "its agent was killed or crashed",
  "host-down": "the host was down",
  suspended: "the host was suspended, or its clock was set forward",
};

export interface AskedCoverage {
  agents: readonly AgentInfo[];
  /** Signals whose rows must still be retained. */
  kept: readonly string[];
  sinceMs: number;
}

export function coverageNotes(facts: CoverageFacts, asked: AskedCoverage): CompletenessNote[] {
  const startMs = facts.nowMs - asked.sinceMs;
  return [...gapNotes(facts, asked.agents, startMs), ...joinNotes(facts, asked.agents, startMs), ...keptNotes(facts, asked, startMs)];
}

interface HostGaps {
  agent: AgentInfo;
  gaps: UnobservedFact[];
  totalMs: number;
}

/** The longest first. */
export function gapNotes({ unobserved, nowMs }: CoverageFacts, agents: readonly AgentInfo[], startMs: number): CompletenessNote[] {
  const hosts = agents
    .map((agent): HostGaps => {
      const gaps = unobserved.filter(({ agentId, untilMs }) => agentId === agent.agentId && untilMs > startMs);
      return { agent, gaps, totalMs: gaps.reduce((sum, { fromMs, untilMs }) => sum + untilMs - Math.max(fromMs, startMs), 0) };
    })
    .filter(({ gaps }) => gaps.length > 0)
    .sort((a, b) => b.totalMs - a.totalMs);
  const notes = hosts.slice(0, hostsShown).map((host) => gapNote(host, nowMs));
  const more = hosts.length - notes.length;
  if (more > 0) {
    const message = `${more} more ${more === 1 ? "host was" : "hosts were"} not observed for a part of this time; coral events --kind agent-unobserved lists when`;
    notes.push({ kind: "unobserved", message });
  }
  return notes;
}

function gapNote({ agent, gaps, totalMs }: HostGaps, nowMs: number): CompletenessNote {
  const [newest] = gaps;
  const when = newest === undefined ? "" : `from ${timeText(newest.fromMs, nowMs)} to ${timeText(newest.untilMs, nowMs)} UTC`;
  const why = reasonTexts[newest?.reason as UnobservedReason] ?? newest?.reason ?? "";
  const times =
    gaps.length === 1
      ? `${when} (${formatDurationMs(totalMs)})`
      : `for ${formatDurationMs(totalMs)} in ${gaps.length} intervals, the last ${when}`;
  return { kind: "unobserved", agent: agent.agentId, message: `${agent.hostname} observed nothing ${times}: ${why}` };
}

function joinNotes({ nowMs }: CoverageFacts, agents: readonly AgentInfo[], startMs: number): CompletenessNote[] {
  const joined = agents
    .map(({ hostname, firstSeenAt }) => ({ hostname, atMs: Date.parse(firstSeenAt) }))
    .filter(({ atMs }) => atMs > startMs + joinToleranceMs)
    .sort((a, b) => b.atMs - a.atMs);
  const [last] = joined;
  if (last === undefined) return [];
  const names = joined.slice(0, hostsShown).map(({ hostname }) => hostname);
  const more = joined.length > names.length ? ` and ${joined.length - names.length} more hosts` : "";
  const at = `${timeText(last.atMs, nowMs)} UTC`;
  const message =
    joined.length === 1
      ? `${last.hostname} joined at ${at}: no data before that`
      : `${names.join(", ")}${more} joined within this time, the last at ${at}: no data before that`;
  return [{ kind: "unobserved", message }];
}

function keptNotes({ kept, nowMs }: CoverageFacts, asked: AskedCoverage, startMs: number): CompletenessNote[] {
  const oldestMs = Math.min(...asked.agents.map(({ firstSeenAt }) => Date.parse(firstSeenAt)));
  return kept
    .filter(({ signal, sinceMs }) => asked.kept.includes(signal) && sinceMs > startMs && oldestMs < sinceMs)
    .sort((a, b) => b.sinceMs - a.sinceMs)
    .slice(0, 1)
    .map(({ signal, sinceMs }) => ({
      kind: "rows-pruned",
      signal,
      message: `rows of ${signal} before ${timeText(sinceMs, nowMs)} UTC are no longer kept`,
    }));
}

/** Includes the date when it is a day old or more. */
function timeText(atMs: number, nowMs: number): string {
  const text = new Date(atMs).toISOString();
  const time = text.slice(11, 19);
  return nowMs - atMs < 86_400_000 ? time : `${text.slice(0, 10)} ${time}`;
}
