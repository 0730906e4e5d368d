/** What agent and colony stores share about tables: roll-ups, gaps, losses, pull plans, byte retention. @module */

export type { LossCount } from "./loss-counts.ts";
export type { AgentPull } from "./pull-plan.ts";
export type { ReadLimits, SeqRange, SignalHead, SignalSlice } from "./signal-slice.ts";
export type { PruneResult, StoreStats } from "./store-stats.ts";
