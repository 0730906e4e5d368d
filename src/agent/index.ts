/**
 * The agent room: collectors → signals → store, the link to the colony and the RPC handlers behind it. Never imports the colony.
 * @module
 */

export { type Agent, startAgent } from "./agent.ts";
