import { Counter, Gauge, Histogram, Registry } from "prom-client";
import { processFigures } from "../base/process-figures.ts";

/** What a colony says of itself on /metrics. */
export interface ColonyMetrics {
  registry: Registry;
  rowsStored: Counter;
  rowsLost: Counter;
  pullFailures: Counter;
  pullLag: Histogram;
  toolCalls: Counter<"tool" | "outcome">;
  discoveryCycle: Histogram;
}

export interface ColonyGauges {
  agentsByHealth: () => Record<string, number>;
  storeBytes: () => Promise<number>;
}

export function createColonyMetrics(gauges: ColonyGauges): ColonyMetrics {
  const registry = new Registry();
  const registers = [registry];
  for (const { name, help, kind, read } of processFigures) {
    if (kind === "gauge") {
      new Gauge({
        name,
        help,
        registers,
        collect() {
          this.set(read());
        },
      });
    } else {
      new Counter({
        name,
        help,
        registers,
        collect() {
          this.reset();
          this.inc(read());
        },
      });
    }
  }
  new Gauge({
    name: "coral_agents",
    help: "Agents by health",
    labelNames: ["health"],
    registers,
    collect() {
      for (const [health, count] of Object.entries(gauges.agentsByHealth())) this.set({ health }, count);
    },
  });
  new Gauge({
    name: "coral_store_used_bytes",
    help: "Bytes of the colony's database that hold data",
    registers,
    async collect() {
      this.set(await gauges.storeBytes());
    },
  });
  return {
    registry,
    rowsStored: new Counter({ name: "coral_rows_stored_total", help: "Rows pulled from agents and committed", registers }),
    rowsLost: new Counter({ name: "coral_rows_lost_total", help: "Rows known to be lost, in the gap ledger", registers }),
    pullFailures: new Counter({ name: "coral_pull_failures_total", help: "Pulls that failed and will be repeated", registers }),
    pullLag: new Histogram({
      name: "coral_pull_lag_seconds",
      help: "Time from a row's commit at the agent to its commit here, oldest row of each pull",
      buckets: [0.1, 0.25, 0.5, 1, 2.5, 5, 7.5, 10, 15, 30, 60, 300],
      registers,
    }),
    discoveryCycle: new Histogram({
      name: "coral_discovery_cycle_seconds",
      help: "Time to turn new rows of agents into services and edges",
      buckets: [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
      registers,
    }),
    toolCalls: new Counter({ name: "coral_tool_calls_total", help: "Tool calls by outcome", labelNames: ["tool", "outcome"], registers }),
  };
}
