/**
 * The agent: collectors → signals → store, the link to the colony and its RPC handlers. Never imports the colony.
 * @module
 */

export { type Agent, startAgent } from "./agent.ts";
