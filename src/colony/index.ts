/**
 * The colony: registry of agents, pulls, tokens, audit, and the backend of the tools. Never imports the agent.
 * @module
 */

export { type Colony, startColony } from "./colony.ts";
