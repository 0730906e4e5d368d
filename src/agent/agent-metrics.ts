import { MetricsRegistry, processFigures } from "../base/metrics.ts";
import { addOtlpMetrics, type OtlpStatus } from "../otlp/index.ts";
import type { AgentStore } from "../store/agent/index.ts";
import type { LinkState } from "./link/colony-link.ts";
import type { TrafficReadings } from "./traffic/traffic-collector.ts";

/** The agent's own metrics on /metrics. */
export function createAgentMetrics(
  store: AgentStore,
  link: { readonly state: LinkState },
  traffic: () => TrafficReadings,
  otlp: () => OtlpStatus,
): MetricsRegistry {
  const metrics = new MetricsRegistry();
  for (const figure of processFigures) metrics.read(figure, figure.read);
  metrics.read({ name: "coral_colony_connected", help: "1 while the tunnel to the colony is up" }, () =>
    link.state.kind === "connected" ? 1 : 0,
  );
  metrics.read(
    {
      name: "coral_signal_next_seq",
      help: "Sequence of the next row of a signal: rows written since the store was created, plus 1",
    },
    () => [...store.heads()].map(([signal, head]) => [{ signal }, head.nextSeq]),
  );
  metrics.read({ name: "coral_rows_lost", help: "Rows that could not be stored since the store was created" }, () =>
    store.losses().map(({ signal, reason, rows }) => [{ signal, reason }, rows]),
  );
  metrics.read({ name: "coral_store_used_bytes", help: "Bytes of the agent's database that hold data" }, async () => {
    const { usedBytes, walBytes } = await store.stats();
    return usedBytes + walBytes;
  });
  addTrafficMetrics(metrics, traffic);
  addOtlpMetrics(metrics, otlp);
  return metrics;
}

function addTrafficMetrics(metrics: MetricsRegistry, traffic: () => TrafficReadings): void {
  const hooks = (): string => traffic().status?.state?.hooks ?? "off";
  metrics.read({ name: "coral_traffic_watched", help: "1 while kernel hooks observe requests" }, () => (hooks() === "off" ? 0 : 1));
  metrics.read(
    { name: "coral_traffic_step", help: "Step of the detail ladder: 0 is full detail" },
    () => traffic().status?.state?.step ?? 0,
  );
  metrics.read(
    { name: "coral_traffic_requests_total", help: "Requests observed since the start", kind: "counter" },
    () => traffic().totals.requests,
  );
  metrics.read(
    { name: "coral_traffic_lost_total", help: "Traffic that was not observed since the start, by reason", kind: "counter" },
    () => [...traffic().totals.losses].map(([loss, count]) => [{ loss }, count]),
  );
  metrics.read(
    { name: "coral_traffic_restarts_total", help: "Unexpected exits of the traffic process since the start", kind: "counter" },
    () => traffic().status?.restarts ?? 0,
  );
  metrics.read(
    { name: "coral_traffic_bpf_seconds_total", help: "Run time of Coral's BPF programs since the start", kind: "counter" },
    () => traffic().totals.bpfNs / 1e9,
  );
  metrics.read(
    { name: "coral_traffic_process_cpu_seconds_total", help: "CPU time of the traffic process since the start", kind: "counter" },
    () => traffic().totals.cpuNs / 1e9,
  );
  metrics.read(
    { name: "coral_traffic_process_rss_bytes", help: "Resident memory of the traffic process" },
    () => traffic().totals.now?.processRssBytes ?? 0,
  );
  metrics.read({ name: "coral_traffic_map_bytes", help: "Memory of BPF maps" }, () => traffic().totals.now?.mapBytes ?? 0);
}
