/** Discovery signals: what runs on a host, and whom it talks to. */

import { defineSignal } from "./define-signal.ts";

const hourMs = 3_600_000;

/** One row per instance, port and scan. An instance is a process, identified by pid and start time; a pid alone is never an identity. */
export const serviceInstance = defineSignal({
  name: "service_instance",
  description: "A process of a service, with its port, build, owner and the reason for its name",
  columns: {
    /** The service's id, see src/model/service-identity.ts. Other signals refer to it. */
    service: "text",
    /** Its name. Null in rows of agents that only know names; then `service` is the name. */
    name: "text?",
    /** What the id was derived from, for people. */
    origin: "text?",
    /** JSON array of qualifiers that distinguish services of the same name, shortest first; a port as `:5432`. */
    qualifiers: "text?",
    /** JSON array of other names: hosts and gRPC services that clients requested, a package, names that were not chosen. */
    aliases: "text?",
    /** `config`, `manual`, `kubernetes`, `environment`, `traffic`, `systemd-unit`, `container`, `pattern`, `script`, `executable`, `process-name`, `port`. */
    named_by: "text",
    /** Confidence of the name, 0..1. */
    confidence: "float",
    /** How it was discovered: `manual`, `listening_socket`, `connection_tracking`, `traffic_inspection`, `kubernetes_api`. */
    method: "text",
    /** `tcp`, `udp`; null for a worker that only makes calls. */
    protocol: "text?",
    address: "text?",
    port: "int?",
    /** Null when the agent lacks permission to read the owner's descriptors; see `coral doctor`. */
    pid: "int?",
    start_ticks: "int?",
    /** Wall time of the process's start. */
    started: "time?",
    exe: "text?",
    /** GNU build-id, else SHA-256 of the executable; hex. */
    build: "text?",
    /** `build-id`, `sha256`. */
    build_kind: "text?",
    /** Redacted at the agent. */
    command_line: "text?",
    /** JSON object of collected variables, redacted at the agent. */
    environment: "text?",
    user_id: "int",
    user_name: "text?",
    cgroup: "text?",
    container_id: "text?",
    container_name: "text?",
    unit: "text?",
    /** Inode of the network namespace. */
    netns: "int?",
    /** JSON array of the addresses on which this instance serves or from which it calls, for the colony's address registry. */
    addresses: "text?",
    /** True for `coral connect`. */
    managed: "bool",
    /** `healthy`, `unhealthy`, `unknown`; null for services without a check. */
    health: "text?",
    health_detail: "text?",
  },
  retention: {
    agent: { maxAgeMs: 24 * hourMs, weight: 2 },
    colony: { maxAgeMs: 48 * hourMs, weight: 2 },
  },
});

/**
 * One end of a connection as its agent sees it. A row is written when a connection is first seen, when it has ended, and every few minutes
 * in between. The newest row of a connection has its totals.
 */
export const connection = defineSignal({
  name: "connection",
  description: "One end of a connection, with the process and service that own it",
  columns: {
    /** `client` called, `server` listened, `peer` if unknown. */
    role: "text",
    service: "text?",
    pid: "int?",
    start_ticks: "int?",
    netns: "int?",
    /** How the owner of this end was found: `process_fd`, `listening_socket` or `config`; null when unknown. */
    attribution: "text?",
    protocol: "text",
    client_address: "text",
    /** 0 in a row that folds several connections; see `connections`. */
    client_port: "int",
    server_address: "text",
    server_port: "int",
    /** `open`, `closed`; `failed` for an attempt that was never established. */
    state: "text",
    first_seen: "time",
    last_seen: "time",
    /** 1, or the number of connections with the same ends folded into this row. */
    connections: "int",
    bytes_sent: "int?",
    bytes_received: "int?",
    rtt_us: "int?",
    retransmits: "int?",
    /**
     * For a `failed` row its cause; for a `closed` row the number of connections that ended this way. Null where the backend cannot
     * determine it.
     */
    refused: "int?",
    reset: "int?",
    timed_out: "int?",
  },
  retention: {
    agent: { maxAgeMs: 6 * hourMs, weight: 4 },
    colony: { maxAgeMs: 24 * hourMs, weight: 4 },
  },
});

/** An event at an agent. */
export const event = defineSignal({
  name: "agent_event",
  description: "Something that happened at a host: a process restarted, its binary changed, a health check failed",
  columns: {
    /** Noun-verb: `service-restarted`, `binary-updated`, `service-exited`, `service-health-changed`. */
    kind: "text",
    /** `info`, `warning`, `error`. */
    severity: "text",
    service: "text?",
    pid: "int?",
    message: "text",
    /** JSON object with before and after. */
    details: "text",
  },
  retention: {
    agent: { maxAgeMs: 7 * 24 * hourMs, weight: 1 },
    colony: { maxAgeMs: 30 * 24 * hourMs, weight: 1 },
  },
});
