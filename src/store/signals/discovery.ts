/** What runs on a host and whom it talks to: the agent's discovery. */

import { defineSignal } from "./define-signal.ts";

const hourMs = 3_600_000;

/** One row per instance, port and scan. An instance is a process: pid and start time; a pid alone is never an identity. */
export const serviceInstance = defineSignal({
  name: "service_instance",
  description: "A process of a service, with its port, build, owner and the reason for its name",
  columns: {
    /** The service's id, see src/model/service-identity.ts. Other signals carry it, too. */
    service: "text",
    /** What it is called; null in rows of agents that only know names: `service` is the name there. */
    name: "text?",
    /** What the id was made from, for people. */
    origin: "text?",
    /** JSON array: what tells namesakes apart, shortest first; a port as `:5432`. */
    qualifiers: "text?",
    /** JSON array of further names: hosts and gRPC services that clients asked for, a package, names that were not chosen. */
    aliases: "text?",
    /** `config`, `manual`, `kubernetes`, `environment`, `traffic`, `systemd-unit`, `container`, `pattern`, `script`, `executable`, `process-name`, `port`. */
    named_by: "text",
    /** 0..1: how sure the name is. */
    confidence: "float",
    /** How it was found: `manual`, `listening_socket`, `connection_tracking`, `traffic_inspection`, `kubernetes_api`. */
    method: "text",
    /** `tcp`, `udp`; null for a worker that only calls out. */
    protocol: "text?",
    address: "text?",
    port: "int?",
    /** Null when the owner's descriptors may not be read; see `coral doctor`. */
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
    /** JSON object of the variables that are kept, redacted at the agent. */
    environment: "text?",
    user_id: "int",
    user_name: "text?",
    cgroup: "text?",
    container_id: "text?",
    container_name: "text?",
    unit: "text?",
    /** Inode of the network namespace. */
    netns: "int?",
    /** JSON array of the addresses that this instance answers on or calls from, for the colony's address registry. */
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
 * One end of a connection as its agent sees it. A row is written when a connection is first seen, when it has ended, and every few minutes in
 * between; the newest row of a connection holds its totals.
 */
export const connection = defineSignal({
  name: "connection",
  description: "One end of a connection, with the process and service that own it",
  columns: {
    /** `client` called, `server` listened, `peer` if that is unknown. */
    role: "text",
    service: "text?",
    pid: "int?",
    start_ticks: "int?",
    netns: "int?",
    /** Who owns this end was found by `process_fd`, `listening_socket` or `config`; null when unknown. */
    attribution: "text?",
    protocol: "text",
    client_address: "text",
    /** 0 in a row that stands for several connections; see `connections`. */
    client_port: "int",
    server_address: "text",
    server_port: "int",
    /** `open`, `closed`; `failed` when it was never established, so that it is an attempt and no connection. */
    state: "text",
    first_seen: "time",
    last_seen: "time",
    /** 1, or how many connections of the same ends were folded into this row. */
    connections: "int",
    bytes_sent: "int?",
    bytes_received: "int?",
    rtt_us: "int?",
    retransmits: "int?",
    /** Of a row that is `failed`: why; of one that is `closed`: how many ended that way. Null where the backend cannot determine it. */
    refused: "int?",
    reset: "int?",
    timed_out: "int?",
  },
  retention: {
    agent: { maxAgeMs: 6 * hourMs, weight: 4 },
    colony: { maxAgeMs: 24 * hourMs, weight: 4 },
  },
});

/** Something that happened at an agent. */
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
