/** Services on this host as stored: the newest scan, and the last reported health. */

import type { AgentStore } from "../../store/agent/index.ts";
import type { Row } from "../../store/engine/index.ts";
import type { AgentServiceStatus } from "../../tools/index.ts";
import type { ManagedService, ServiceHealth } from "../managed/managed-services.ts";

/** Queries of the agent's own store; each reads the newest rows only. */
export interface ServiceFacts {
  /** The discovered name of a port, without registered services; undefined when no listener was seen. */
  discoveredAt(port: number, protocol: "tcp" | "udp"): Promise<{ name: string; method: string } | undefined>;
  /** Addresses on which the newest scan saw a port, besides loopback and wildcards. */
  addressesOf(port: number): Promise<string[]>;
  /** The state in the last health event of a service. */
  lastHealth(service: Pick<ManagedService, "name" | "port">): Promise<ServiceHealth["state"] | undefined>;
  /** The newest scan, one line per service and port, by name; without health checks. */
  newestScan(): Promise<AgentServiceStatus[]>;
}

// All rows of one scan have the same timestamp.
const newest = "mono_ms = (SELECT mono_ms FROM service_instance ORDER BY seq DESC LIMIT 1)";
/** An older row may describe a previous owner of the port. */
const maxAge = "INTERVAL 10 MINUTES";
/** Addresses of one port that health checks and inspections may try. */
const maxAddresses = 8;

export function createServiceFacts(store: Pick<AgentStore, "query">): ServiceFacts {
  return {
    discoveredAt: async (port, protocol) => {
      const [row] = await store.query(
        `SELECT coalesce(name, service) AS name, method FROM service_instance WHERE port = ? AND protocol = ? AND NOT managed AND time > (SELECT max(time) FROM service_instance) - ${maxAge} ORDER BY seq DESC LIMIT 1`,
        [port, protocol],
      );
      return row ? { name: String(row["name"]), method: String(row["method"]) } : undefined;
    },
    addressesOf: async (port) => {
      const rows = await store.query(`SELECT DISTINCT address, addresses FROM service_instance WHERE port = ? AND ${newest} LIMIT 64`, [
        port,
      ]);
      const all = rows.flatMap((row) => [textOf(row, "address") ?? "", ...listIn(textOf(row, "addresses"))]);
      return [...new Set(all)].filter(isReachable).slice(0, maxAddresses);
    },
    lastHealth: async ({ name, port }) => {
      const rows = await store.query(
        `SELECT details FROM agent_event WHERE kind = 'service-health-changed' AND coalesce(details->>'name', service) = ?
         ORDER BY seq DESC LIMIT 20`,
        [name],
      );
      for (const row of rows) {
        const details = objectIn(textOf(row, "details"));
        const { after } = details;
        if (details["port"] === port && (after === "healthy" || after === "unhealthy")) return after;
      }
      return undefined;
    },
    newestScan: async () => {
      const rows = await store.query(
        `SELECT any_value(coalesce(name, service)) AS name, port, protocol, any_value(method) AS method, max(confidence) AS confidence, bool_or(managed) AS managed,
           CASE WHEN bool_and(address IS NULL AND port IS NOT NULL) THEN 0 ELSE greatest(1, count(DISTINCT pid)) END AS instances, arg_max(pid, start_ticks) AS pid, arg_max(exe, start_ticks) AS exe,
           arg_max(build, start_ticks) AS build
         FROM service_instance WHERE ${newest} GROUP BY service, port, protocol ORDER BY name, port, protocol`,
      );
      return rows.map(statusOf);
    },
  };
}

/** One line of `coral agent status`: rows of one service and port, with nullable columns as the store returns them. */
function statusOf(row: Row): AgentServiceStatus {
  return {
    name: String(row["name"]),
    port: numberOf(row, "port"),
    protocol: textOf(row, "protocol"),
    status: row["managed"] === true ? "managed" : "discovered",
    method: String(row["method"]),
    confidence: Number(row["confidence"]),
    instances: Number(row["instances"]),
    pid: numberOf(row, "pid"),
    exe: textOf(row, "exe"),
    build: textOf(row, "build"),
    check: null,
  };
}

function isReachable(address: string): boolean {
  return /^[0-9a-f.:]+$/i.test(address) && !["0.0.0.0", "::", "::1"].includes(address) && !address.startsWith("127.");
}

function numberOf(row: Row, column: string): number | null {
  const value = row[column] ?? null;
  return value === null ? null : Number(value);
}

function textOf(row: Row, column: string): string | null {
  const value = row[column] ?? null;
  return value === null ? null : String(value);
}

function listIn(json: string | null): string[] {
  const value = parsed(json);
  return Array.isArray(value) ? value.filter((item) => typeof item === "string") : [];
}

function objectIn(json: string | null): Record<string, unknown> {
  const value = parsed(json);
  return typeof value === "object" && value !== null ? { ...value } : {};
}

function parsed(json: string | null): unknown {
  try {
    return json === null ? undefined : JSON.parse(json);
  } catch {
    // Written by another version: treat it as absent.
    return undefined;
  }
}
