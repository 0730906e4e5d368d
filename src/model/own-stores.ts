/** Whether an answer comes from agents' own stores instead of the data that the colony has pulled. */
export interface OwnStoreFacts {
  /** Agents whose own stores were read; absent: only the colony's. */
  ownStores?: string[];
  /** Why the named agent could not be queried; the colony's copy was read instead. */
  directProblem?: string;
}
