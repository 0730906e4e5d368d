/**
 * The colony room: registry of agents, pull loop, tokens, and the facts behind the tools. Never imports the agent.
 * @module
 */

export { type Colony, type ColonyOptions, startColony } from "./colony.ts";
