/**
 * The colony room: registry of agents, pull loop, tokens, and the facts behind the tools. Never imports the agent.
 * @module
 */

export { type Colony, startColony } from "./colony.ts";
