import type { DiscoveryScan, TrackedSocket } from "../../host/index.ts";
import { servingOwners } from "../naming/listener-owners.ts";
import type { ServiceNamer } from "../naming/service-namer.ts";

/** The process and service at one end of a connection, and how they were attributed. */
export interface Owner {
  /** The id. */
  service: string | null;
  pid: number | null;
  startTicks: number | null;
  attribution: "process_fd" | "listening_socket" | "config" | null;
}

export const unknownOwner: Owner = { service: null, pid: null, startTicks: null, attribution: null };

/** The process that holds the socket; for a server's socket without a known holder, the owner of the listener. */
export function ownerOf(socket: TrackedSocket, scan: DiscoveryScan, namer: ServiceNamer): Owner {
  const isServer = socket.role === "server";
  const [pid] = scan.ownersOf(socket);
  const entry = pid === undefined ? undefined : scan.processOf(pid);
  if (entry) {
    const name = isServer ? namer.atServer(socket, entry.pid) : namer.ofProcess(entry.pid);
    return { service: name?.service ?? null, pid: entry.pid, startTicks: entry.startTicks, attribution: "process_fd" };
  }
  if (!isServer) return unknownOwner;
  return ownerOfListener(socket, scan, namer);
}

/** Attributes an accepted connection to the owner of its listener. */
export function ownerOfListener(socket: TrackedSocket, scan: DiscoveryScan, namer: ServiceNamer): Owner {
  const [listener] = scan.listenersOf(socket);
  if (!listener) return unknownOwner;
  const owners = servingOwners(scan, listener);
  const name = namer.atServer(socket, null);
  if (owners.length === 0) {
    const isConfigured = name?.namedBy === "manual" || name?.namedBy === "config";
    return { service: name?.service ?? null, pid: null, startTicks: null, attribution: isConfigured ? "config" : "listening_socket" };
  }
  // A single owner is certain; of several, any may have accepted the connection.
  const only = owners.length === 1 ? scan.processOf(owners[0] ?? 0) : undefined;
  return { service: name?.service ?? null, pid: only?.pid ?? null, startTicks: only?.startTicks ?? null, attribution: "listening_socket" };
}
