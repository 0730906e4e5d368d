import { collectDefaultMetrics, Gauge, Registry } from "prom-client";
import type { AgentStore } from "../store/index.ts";
import type { LinkState } from "./colony-link.ts";

/** What an agent says of itself on /metrics. */
export function createAgentMetrics(store: AgentStore, link: { readonly state: LinkState }): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const registers = [registry];
  new Gauge({
    name: "coral_colony_connected",
    help: "1 while the tunnel to the colony is up",
    registers,
    collect() {
      this.set(link.state.kind === "connected" ? 1 : 0);
    },
  });
  new Gauge({
    name: "coral_signal_next_seq",
    help: "Sequence that the next row of a signal will get: rows written since the store was made, plus 1",
    labelNames: ["signal"],
    registers,
    collect() {
      for (const [signal, head] of store.heads()) this.set({ signal }, head.nextSeq);
    },
  });
  new Gauge({
    name: "coral_rows_lost",
    help: "Rows that could not be stored since the store was made",
    labelNames: ["signal", "reason"],
    registers,
    collect() {
      for (const { signal, reason, rows } of store.losses()) this.set({ signal, reason }, rows);
    },
  });
  new Gauge({
    name: "coral_store_used_bytes",
    help: "Bytes of the agent's database that hold data",
    registers,
    async collect() {
      const { usedBytes, walBytes } = await store.stats();
      this.set(usedBytes + walBytes);
    },
  });
  return registry;
}
