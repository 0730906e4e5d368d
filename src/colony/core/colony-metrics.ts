import { type Counter, type Histogram, MetricsRegistry, processFigures } from "../../base/metrics.ts";

/** The colony's own metrics, served on /metrics. */
export interface ColonyMetrics {
  registry: MetricsRegistry;
  rowsStored: Counter;
  rowsLost: Counter;
  pullFailures: Counter;
  pullLag: Histogram;
  /** By `tool` and `outcome`. */
  toolCalls: Counter;
  discoveryCycle: Histogram;
}

/** Agent counts by protocol and runtime; revoked agents are not counted. */
export interface AgentKinds {
  total: number;
  legacy: number;
  runtimes: { runtimeType: string; sidecarMode: string; agents: number }[];
}

export interface ColonyGauges {
  /** Absent: no counts by protocol and runtime. */
  agentKinds?: { colonyId: string; read: () => AgentKinds };
  agentsByHealth: () => Record<string, number>;
  storeBytes: () => Promise<number>;
}

export function createColonyMetrics(gauges: ColonyGauges): ColonyMetrics {
  const registry = new MetricsRegistry();
  for (const figure of processFigures) registry.read(figure, figure.read);
  registry.read({ name: "coral_agents", help: "Agents by health" }, () =>
    Object.entries(gauges.agentsByHealth()).map(([health, count]) => [{ health }, count]),
  );
  if (gauges.agentKinds) addKinds(registry, gauges.agentKinds);
  registry.read({ name: "coral_store_used_bytes", help: "Bytes of the colony's database that hold data" }, () => gauges.storeBytes());
  return {
    registry,
    rowsStored: registry.counter({ name: "coral_rows_stored_total", help: "Rows pulled from agents and committed" }),
    rowsLost: registry.counter({ name: "coral_rows_lost_total", help: "Rows known to be lost, in the gap ledger" }),
    pullFailures: registry.counter({ name: "coral_pull_failures_total", help: "Failed pulls; each is retried" }),
    pullLag: registry.histogram({
      name: "coral_pull_lag_seconds",
      help: "Time from a row's commit at the agent to its commit here, oldest row of each pull",
      bounds: [0.1, 0.25, 0.5, 1, 2.5, 5, 7.5, 10, 15, 30, 60, 300],
    }),
    discoveryCycle: registry.histogram({
      name: "coral_discovery_cycle_seconds",
      help: "Time to turn new rows of agents into services and edges",
      bounds: [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
    }),
    toolCalls: registry.counter({ name: "coral_tool_calls_total", help: "Tool calls by outcome" }),
  };
}

function addKinds(registry: MetricsRegistry, { colonyId: colony, read: agentKinds }: NonNullable<ColonyGauges["agentKinds"]>): void {
  registry.read({ name: "coral_agents_total", help: "Agents in the colony" }, () => [[{ colony }, agentKinds().total]]);
  registry.read({ name: "coral_agents_legacy_total", help: "Agents with a protocol from before runtime contexts" }, () => [
    [{ colony }, agentKinds().legacy],
  ]);
  registry.read({ name: "coral_agents_legacy_pct", help: "Share of agents with a protocol from before runtime contexts, percent" }, () => {
    const { total, legacy } = agentKinds();
    return [[{ colony }, total === 0 ? 0 : (legacy / total) * 100]];
  });
  registry.read({ name: "coral_agents_by_runtime", help: "Agents by runtime type and sidecar mode" }, () =>
    agentKinds().runtimes.map(({ runtimeType, sidecarMode, agents }) => [
      { colony, runtime_type: runtimeType, sidecar_mode: sidecarMode },
      agents,
    ]),
  );
}
