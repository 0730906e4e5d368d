/** Turns what the colony knows to be missing into completeness notes, few enough to read. */

import { formatDurationMs } from "../../base/units.ts";
import type { AgentInfo } from "../schemas/agent.ts";
import type { CompletenessNote } from "../schemas/completeness.ts";
import type { ColonyBackend, LossFact } from "./backend.ts";
import { coverageNotes } from "./coverage-notes.ts";
import type { ToolCallContext } from "./define-tool.ts";
import { currentAgents } from "./match-agents.ts";

const notesMax = 20;

/** Pulls come every few seconds; an agent without a connection for this long misses some. */
const disconnectedMs = 15_000;

export interface AskedTime {
  /** Those that the answer is about. */
  agents: AgentInfo[];
  /** The same for the backend, when they were selected. */
  which?: { agentIds?: string[] };
  /** Signals whose losses make the answer incomplete. */
  signals: readonly string[];
  /** What retention must have kept for it; default: `signals`. */
  kept?: readonly string[];
  sinceMs: number;
}

/** What an answer over a time could not see: agents that do not report, time that nobody observed, rows that are no longer kept or were lost. */
export async function missingNotes(backend: ColonyBackend, asked: AskedTime, context: ToolCallContext): Promise<CompletenessNote[]> {
  const { agents, signals, sinceMs } = asked;
  const [losses, coverage] = await Promise.all([
    backend.losses({ signals, sinceMs, ...asked.which }, context),
    backend.coverage({ sinceMs }, context),
  ]);
  const covered = coverageNotes(coverage, { agents, kept: asked.kept ?? signals, sinceMs });
  return [...silentAgentNotes(agents), ...covered, ...lossNotes(losses)];
}

/** One note for each agent that has not reported lately. */
export function silentAgentNotes(agents: AgentInfo[]): CompletenessNote[] {
  const notes = currentAgents(agents)
    .filter((agent) => agent.health !== "healthy" || isDisconnected(agent))
    .map((agent): CompletenessNote => {
      const ago = agent.lastContactAgoMs === null ? "has never reported" : `last reported ${formatDurationMs(agent.lastContactAgoMs)} ago`;
      return { kind: "agent-silent", agent: agent.agentId, message: `${agent.hostname} ${ago}: its newest rows are missing` };
    });
  return boundNotes(notes, "agent-silent", "agents are silent");
}

function isDisconnected({ connected, lastContactAgoMs }: AgentInfo): boolean {
  return !connected && (lastContactAgoMs ?? Number.POSITIVE_INFINITY) > disconnectedMs;
}

/** One note for each agent and signal that lost rows. */
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
    // `*` means all: a damaged file of the colony has lost rows of every agent.
    const signal = loss.signal === "*" ? "all signals" : loss.signal;
    const message = `${amount} of ${signal} from ${loss.agentId === "*" ? "all agents" : loss.agentId} are missing: ${loss.reason}`;
    return { kind: "rows-lost", agent: loss.agentId, signal: loss.signal, message, ...(loss.rows === null ? {} : { rows: loss.rows }) };
  });
  return boundNotes(notes, "rows-lost", "gaps are known");
}

/** Keeps the first `limit` of a list and notes how many there are. */
export function cutList<T>(items: T[], limit: number, what: string, advice: string): { items: T[]; notes: CompletenessNote[] } {
  const notes = cutNotes(items.length, limit, what, advice);
  return { items: notes.length === 0 ? items : items.slice(0, limit), notes };
}

/** The same about a list that was cut elsewhere. */
export function cutNotes(total: number, limit: number, what: string, advice: string): CompletenessNote[] {
  return total <= limit ? [] : [{ kind: "limit", message: `${limit} of ${total} ${what} are shown; ${advice}` }];
}

function boundNotes(notes: CompletenessNote[], kind: CompletenessNote["kind"], what: string): CompletenessNote[] {
  if (notes.length <= notesMax) return notes;
  return [...notes.slice(0, notesMax - 1), { kind, message: `${notes.length - notesMax + 1} more ${what}` }];
}
