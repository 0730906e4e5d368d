/** Tracks which stacks are stored: each one is written when it is first seen, and rewritten before retention removes it. */

import type { profileStack, RowOf } from "../../store/signals/index.ts";

export type StackRow = RowOf<typeof profileStack.columns>;

/** Well below the retention of `profile_stack`, at the agent and at the colony. */
const rewriteMs = 6 * 3_600_000;
/** 16 digits each: 2 MB. The entry written longest ago is evicted; its stack is rewritten when it is seen again. */
const maxStacks = 20_000;

/** Samples refer to a stack by its hash, so that its text is not stored with every window. */
export class KnownStacks {
  readonly #writtenMs = new Map<string, number>();
  readonly #nowMs: () => number;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  unwritten(rows: readonly StackRow[]): StackRow[] {
    const nowMs = this.#nowMs();
    return rows.filter(({ stack }) => nowMs - (this.#writtenMs.get(stack) ?? Number.NEGATIVE_INFINITY) > rewriteMs);
  }

  written(rows: readonly StackRow[]): void {
    const nowMs = this.#nowMs();
    for (const { stack } of rows) {
      this.#writtenMs.delete(stack);
      this.#writtenMs.set(stack, nowMs);
    }
    for (const oldest of this.#writtenMs.keys()) {
      if (this.#writtenMs.size <= maxStacks) break;
      this.#writtenMs.delete(oldest);
    }
  }
}
