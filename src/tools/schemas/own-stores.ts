/** Answers read from agents' own stores instead of the colony's. */

import type { OwnStoreFacts } from "../../model/own-stores.ts";
import type { CompletenessNote } from "./completeness.ts";

/** The field of an answer that names these agents. */
export function ownStoresOf({ ownStores }: OwnStoreFacts): { ownStores?: string[] } {
  return ownStores === undefined ? {} : { ownStores };
}

export function ownStoreNotes({ directProblem }: OwnStoreFacts): CompletenessNote[] {
  if (directProblem === undefined) return [];
  return [{ kind: "unavailable", message: `${directProblem}; showing the colony's copy` }];
}
