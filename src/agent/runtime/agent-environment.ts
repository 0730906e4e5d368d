/** The environment that an agent's rules go by: `production`. */

export interface AgentEnvironmentFacts {
  labels: Readonly<Record<string, string>>;
  /** Of the colony that it belongs to, as its certificate says: `<application>-<environment>-<6 hex>`. Undefined before it has joined one. */
  colonyId: string | undefined;
  /** As the colony said when this agent registered; undefined before. */
  told: string | undefined;
}

/**
 * What the agent is labelled with, else what its colony's id ends in. Names of applications and environments may both hold a dash: there the colony's own
 * word decides where the environment begins, and nothing beyond that.
 */
export function agentEnvironment({ labels, colonyId = "", told }: AgentEnvironmentFacts): string {
  const label = labels["env"] ?? labels["environment"];
  if (label !== undefined) return label;
  const name = /^(.+)-[0-9a-f]{6}$/.exec(colonyId)?.[1];
  if (name === undefined) return "";
  return told !== undefined && told !== "" && name.endsWith(`-${told}`) ? told : (name.split("-").at(-1) ?? "");
}
