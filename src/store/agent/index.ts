/**
 * The agent's store: the last hours of its signals, tables in one DuckDB file and segments beside it.
 * @module
 */

export { type AgentStore, type AgentStoreOptions, openAgentStore } from "./agent-store.ts";
