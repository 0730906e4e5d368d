/** Names agents for people: by host name, and by id where two hosts share a name or an agent has none. */
export function agentNames(agents: readonly { agentId: string | null; hostname: string | null }[]): (agentId: string) => string {
  const names = new Map<string, string>();
  for (const { agentId, hostname } of agents) if (agentId !== null) names.set(agentId, hostname ?? agentId);
  const counts = new Map<string, number>();
  for (const name of names.values()) counts.set(name, (counts.get(name) ?? 0) + 1);
  return (agentId) => {
    const name = names.get(agentId) ?? agentId;
    return (counts.get(name) ?? 0) > 1 ? agentId : name;
  };
}
