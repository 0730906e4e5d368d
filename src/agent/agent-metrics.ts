import { MetricsRegistry } from "../base/metrics.ts";
import { processFigures } from "../base/process-figures.ts";
import type { AgentStore } from "../store/index.ts";
import type { LinkState } from "./colony-link.ts";

/** What an agent says of itself on /metrics. */
export function createAgentMetrics(store: AgentStore, link: { readonly state: LinkState }): MetricsRegistry {
  const metrics = new MetricsRegistry();
  for (const figure of processFigures) metrics.read(figure, figure.read);
  metrics.read({ name: "coral_colony_connected", help: "1 while the tunnel to the colony is up" }, () =>
    link.state.kind === "connected" ? 1 : 0,
  );
  metrics.read(
    {
      name: "coral_signal_next_seq",
      help: "Sequence that the next row of a signal will get: rows written since the store was made, plus 1",
    },
    () => [...store.heads()].map(([signal, head]) => [{ signal }, head.nextSeq]),
  );
  metrics.read({ name: "coral_rows_lost", help: "Rows that could not be stored since the store was made" }, () =>
    store.losses().map(({ signal, reason, rows }) => [{ signal, reason }, rows]),
  );
  metrics.read({ name: "coral_store_used_bytes", help: "Bytes of the agent's database that hold data" }, async () => {
    const { usedBytes, walBytes } = await store.stats();
    return usedBytes + walBytes;
  });
  return metrics;
}
