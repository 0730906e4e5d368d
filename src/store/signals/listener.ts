/** Who listens: one row per listening process and port, sampled every 60 s. */

import { defineSignal } from "../define-signal.ts";

const hourMs = 3_600_000;

export const listener = defineSignal({
  name: "listener",
  description: "A process that listens on a TCP port, with the service name that Coral gives it",
  columns: {
    service: "text",
    /** What the name comes from: `systemd-unit`, `script`, `executable`, `process-name`, `port`. */
    named_by: "text",
    protocol: "text",
    address: "text",
    port: "int",
    /** Null when the owner's descriptors may not be read; see `coral doctor`. */
    pid: "int?",
    start_ticks: "int?",
    exe: "text?",
    user_id: "int",
    cgroup: "text?",
  },
  retention: {
    agent: { maxAgeMs: 24 * hourMs, weight: 1 },
    colony: { maxAgeMs: 48 * hourMs, weight: 1 },
  },
});
