/** Commands that wait for an approval. They are held at the agent: only a decision that reaches it lets one run. */

import { CoralError } from "../../base/errors.ts";

/** By a person, or a refusal on timeout. */
export interface ApprovalDecision {
  isApproved: boolean;
  /** Empty if no decision arrived in time. */
  decidedBy: string;
  reason: string;
}

/** Further commands are refused while this many wait. */
const maxHeld = 100;

/** Kept in memory only: waiting commands are lost when the agent restarts. */
export class Approvals {
  readonly #held = new Map<string, (decision: ApprovalDecision) => void>();

  get waiting(): number {
    return this.#held.size;
  }

  /** Resolves with the decision, or with a refusal on timeout. Rejects if the caller disconnects. */
  wait(id: string, timeoutMs: number, signal: AbortSignal): Promise<ApprovalDecision> {
    if (this.#held.size >= maxHeld)
      throw new CoralError({
        code: "exhausted",
        message: `Cannot hold the command: ${maxHeld} commands are waiting for an approval already`,
      });
    if (this.#held.has(id))
      throw new CoralError({
        code: "already-exists",
        message: `Cannot hold the command "${id}": a command with this id is waiting already`,
      });
    return new Promise((resolve, reject) => {
      const end = (): void => {
        clearTimeout(timer);
        signal.removeEventListener("abort", leave);
        this.#held.delete(id);
      };
      const leave = (): void => {
        end();
        reject(new CoralError({ code: "cancelled", message: "Cannot run this command: the caller disconnected before it was approved" }));
      };
      const timer = setTimeout(() => {
        end();
        resolve({ isApproved: false, decidedBy: "", reason: "no approval in time" });
      }, timeoutMs);
      this.#held.set(id, (decision) => {
        end();
        resolve(decision);
      });
      signal.addEventListener("abort", leave, { once: true });
      if (signal.aborted) leave();
    });
  }

  /** Throws `not-found` if the command is not waiting, or no longer. */
  decide(id: string, decision: ApprovalDecision): void {
    const resolve = this.#held.get(id);
    if (!resolve)
      throw new CoralError({ code: "not-found", message: `Cannot decide about command "${id}": it is not waiting for an approval here` });
    resolve(decision);
  }
}
