/** Turns the colony's known gaps into a bounded number of completeness notes. */

import { formatDurationMs } from "../../base/units.ts";
import type { AgentInfo } from "../schemas/agent.ts";
import type { CompletenessNote } from "../schemas/completeness.ts";
import type { ColonyBackend, LossFact } from "./backend.ts";
import { coverageNotes } from "./coverage-notes.ts";
import type { ToolCallContext } from "./define-tool.ts";
import { currentAgents } from "./match-agents.ts";

const notesMax = 20;

/** The colony pulls every few seconds; an agent without contact for this long has missed pulls. */
const disconnectedMs = 15_000;

export interface AskedTime {
  /** Agents that the answer covers. */
  agents: AgentInfo[];
  /** Their ids for the backend; absent: all. */
  which?: { agentIds?: string[] };
  /** Signals whose losses make the answer incomplete. */
  signals: readonly string[];
  /** Signals whose retention limits the answer; default: `signals`. */
  kept?: readonly string[];
  sinceMs: number;
}

/** What an answer over a time range lacks: silent agents, unobserved time, rows that were lost or are no longer retained. */
export async function missingNotes(backend: ColonyBackend, asked: AskedTime, context: ToolCallContext): Promise<CompletenessNote[]> {
  const { agents, signals, sinceMs } = asked;
  const [losses, coverage] = await Promise.all([
    backend.losses({ signals, sinceMs, ...asked.which }, context),
    backend.coverage({ sinceMs }, context),
  ]);
  const covered = coverageNotes(coverage, { agents, kept: asked.kept ?? signals, sinceMs });
  return [...silentAgentNotes(agents), ...covered, ...lossNotes(losses)];
}

/** One note for each agent whose newest rows are not there: it has not reported lately, or nothing can be stored. */
export function silentAgentNotes(agents: AgentInfo[]): CompletenessNote[] {
  const notes = currentAgents(agents).flatMap((agent): CompletenessNote[] => {
    const missing = whyRowsAreMissing(agent);
    return missing === null ? [] : [{ kind: "agent-silent", agent: agent.agentId, message: `${agent.hostname} ${missing}` }];
  });
  return boundNotes(notes, "agent-silent", "agents are silent");
}

function whyRowsAreMissing(agent: AgentInfo): string | null {
  const { storeProblem, lastContactAgoMs } = agent;
  if (storeProblem?.at === "agent") return `cannot store rows: ${storeProblem.reason}; its newest rows are missing`;
  if (storeProblem) return `sends rows that the colony cannot store: ${storeProblem.reason}; its newest rows are missing`;
  if (isSilent(agent)) {
    const ago = lastContactAgoMs === null ? "has never reported" : `last reported ${formatDurationMs(lastContactAgoMs)} ago`;
    return `${ago}: its newest rows are missing`;
  }
  return agent.health === "degraded" ? "has a slow link: its newest rows arrive late" : null;
}

/** A degraded agent with a slow link does report. */
export function isSilent(agent: AgentInfo): boolean {
  const { health, link, storeProblem } = agent;
  const answers = link?.isSlow || storeProblem?.at === "agent";
  return health === "unhealthy" || (health === "degraded" && !answers) || isDisconnected(agent);
}

function isDisconnected({ connected, lastContactAgoMs }: AgentInfo): boolean {
  return !connected && (lastContactAgoMs ?? Number.POSITIVE_INFINITY) > disconnectedMs;
}

/** One note per agent and signal that lost rows. */
export function lossNotes(losses: LossFact[]): CompletenessNote[] {
  const merged = new Map<string, LossFact & { times: number }>();
  for (const loss of losses) {
    const key = `${loss.agentId} ${loss.signal} ${loss.reason}`;
    const before = merged.get(key);
    if (!before) {
      merged.set(key, { ...loss, times: 1 });
      continue;
    }
    before.rows = before.rows === null || loss.rows === null ? null : before.rows + loss.rows;
    before.times++;
  }
  const notes = [...merged.values()].map((loss): CompletenessNote => {
    const amount = loss.rows === null ? "an unknown number of rows" : `${loss.rows} rows`;
    // `*` means all: a damaged file at the colony loses rows of every agent.
    const signal = loss.signal === "*" ? "all signals" : loss.signal;
    const message = `${amount} of ${signal} from ${loss.agentId === "*" ? "all agents" : loss.agentId} are missing: ${loss.reason}`;
    return { kind: "rows-lost", agent: loss.agentId, signal: loss.signal, message, ...(loss.rows === null ? {} : { rows: loss.rows }) };
  });
  return boundNotes(notes, "rows-lost", "gaps are known");
}

/** Truncates a list to `limit` and notes the total. */
export function cutList<T>(items: T[], limit: number, what: string, advice: string): { items: T[]; notes: CompletenessNote[] } {
  const notes = cutNotes(items.length, limit, what, advice);
  return { items: notes.length === 0 ? items : items.slice(0, limit), notes };
}

/** The same note for a list that was truncated elsewhere. */
export function cutNotes(total: number, limit: number, what: string, advice: string): CompletenessNote[] {
  return total <= limit ? [] : [{ kind: "limit", message: `${limit} of ${total} ${what} are shown; ${advice}` }];
}

function boundNotes(notes: CompletenessNote[], kind: CompletenessNote["kind"], what: string): CompletenessNote[] {
  if (notes.length <= notesMax) return notes;
  return [...notes.slice(0, notesMax - 1), { kind, message: `${notes.length - notesMax + 1} more ${what}` }];
}
