/**
 * Decides which of several agents on one kernel counts a request. Kernel hooks see the whole machine, so agents with overlapping
 * scopes all record it; the colony keeps the rows of one.
 */

import { initialPidNamespace } from "../../model/runtime-facts.ts";

export interface RecordingAgent {
  agentId: string;
  /** Random per boot of a kernel: equal for agents that share one. Empty: unknown. */
  bootId: string;
  /** Inode of the namespace whose processes it observes; 0: unknown. */
  pidNamespace: number;
  /** Its wall clock minus the colony's. */
  clockDifferenceMs: number;
}

/** Start time, by the agent's clock. */
interface Change {
  fromMs: number;
  isCounted: boolean;
}

/** Maximum number of remembered changes. Agents keep rows for hours, and changes are rare. */
const maxChanges = 64;

export class RequestRecorders {
  /** Connected agents whose hooks record, by boot id. */
  readonly #kernels = new Map<string, Map<string, RecordingAgent>>();
  /** Agents that have shared their kernel with another one. */
  readonly #changes = new Map<string, Change[]>();

  /** The agent is connected and records requests. */
  add(agent: RecordingAgent, nowMs: number): void {
    this.remove(agent.agentId, nowMs, agent);
    if (agent.bootId === "" || agent.pidNamespace === 0) return;
    const agents = this.#kernels.get(agent.bootId) ?? new Map<string, RecordingAgent>();
    // The others counted its requests before it connected.
    if (!agents.has(agent.agentId) && [...agents.values()].some((other) => isAsWide(other, agent)))
      this.#change(agent, false, this.#changes.has(agent.agentId) ? nowMs : Number.NEGATIVE_INFINITY);
    this.#kernels.set(agent.bootId, agents.set(agent.agentId, agent));
    this.#elect(agents, nowMs);
  }

  /** The agent left, or its hooks are off. `unless`: ignored while it is still connected with these facts. */
  remove(agentId: string, nowMs: number, unless?: RecordingAgent): void {
    for (const [bootId, agents] of this.#kernels) {
      const known = agents.get(agentId);
      if (!known || (unless?.bootId === bootId && unless.pidNamespace === known.pidNamespace)) continue;
      agents.delete(agentId);
      if (agents.size === 0) this.#kernels.delete(bootId);
      // Another agent takes over, so late rows of this one for the time since are duplicates.
      if ([...agents.values()].some((other) => isAsWide(other, known))) this.#change(known, false, nowMs);
      this.#elect(agents, nowMs);
    }
  }

  /** Whether rows of a time count, by the agent's clock; undefined: all. */
  countedBy(agentId: string): ((timeMs: number) => boolean) | undefined {
    const changes = this.#changes.get(agentId);
    if (!changes) return undefined;
    return (timeMs) => changes.findLast(({ fromMs }) => fromMs <= timeMs)?.isCounted ?? true;
  }

  #elect(agents: ReadonlyMap<string, RecordingAgent>, nowMs: number): void {
    for (const agent of agents.values()) this.#change(agent, ![...agents.values()].some((other) => isPreferred(other, agent)), nowMs);
  }

  #change({ agentId, clockDifferenceMs }: RecordingAgent, isCounted: boolean, nowMs: number): void {
    const changes = this.#changes.get(agentId) ?? [];
    if ((changes.at(-1)?.isCounted ?? true) === isCounted) return;
    changes.push({ fromMs: nowMs + clockDifferenceMs, isCounted });
    this.#changes.set(agentId, changes.slice(-maxChanges));
  }
}

/** Whether its scope includes the agent's. */
function isAsWide(other: RecordingAgent, agent: RecordingAgent): boolean {
  return other.pidNamespace === agent.pidNamespace || other.pidNamespace === initialPidNamespace;
}

/** The wider scope wins; for equal scopes the smaller id. */
function isPreferred(other: RecordingAgent, agent: RecordingAgent): boolean {
  if (other.agentId === agent.agentId || !isAsWide(other, agent)) return false;
  return other.pidNamespace !== agent.pidNamespace || other.agentId < agent.agentId;
}
