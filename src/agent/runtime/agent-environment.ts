/** The environment that exec rules match, such as `production`. */

/** Sources of the environment's name. */
export interface AgentEnvironmentFacts {
  labels: Readonly<Record<string, string>>;
  /** From the agent's certificate: `<application>-<environment>-<6 hex>`. Undefined before the agent has joined a colony. */
  colonyId: string | undefined;
  /** The environment that the colony reported at registration; undefined before. */
  reported: string | undefined;
}

/**
 * The label `env` or `environment`, else the end of the colony's id. Applications and environments may both contain dashes: the environment that
 * the colony reports only decides where the split is, because a colony must not be able to choose which rules apply.
 */
export function agentEnvironment({ labels, colonyId = "", reported }: AgentEnvironmentFacts): string {
  const label = labels["env"] ?? labels["environment"];
  if (label !== undefined) return label;
  const name = /^(.+)-[0-9a-f]{6}$/.exec(colonyId)?.[1];
  if (name === undefined) return "";
  return reported !== undefined && reported !== "" && name.endsWith(`-${reported}`) ? reported : (name.split("-").at(-1) ?? "");
}
