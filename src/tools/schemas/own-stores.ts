/** When an answer comes from agents' own stores rather than from what the colony has pulled. */

import type { CompletenessNote } from "./completeness.ts";

export interface OwnStoreFacts {
  /** Agents whose own stores were read; absent: the colony's alone. */
  ownStores?: string[];
  /** Why the agent that was named could not be asked itself; the colony's copy was read then. */
  directProblem?: string;
}

/** The field of an answer that says so. */
export function ownStoresOf({ ownStores }: OwnStoreFacts): { ownStores?: string[] } {
  return ownStores === undefined ? {} : { ownStores };
}

export function ownStoreNotes({ directProblem }: OwnStoreFacts): CompletenessNote[] {
  if (directProblem === undefined) return [];
  return [{ kind: "unavailable", message: `${directProblem}; this is what the colony has of it` }];
}
