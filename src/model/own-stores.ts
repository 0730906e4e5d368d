/** Whether an answer comes from agents' own stores rather than from what the colony has pulled. */
export interface OwnStoreFacts {
  /** Agents whose own stores were read; absent: the colony's only. */
  ownStores?: string[];
  /** Why the named agent could not be queried; the colony's copy was read instead. */
  directProblem?: string;
}
