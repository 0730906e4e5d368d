import type { DiscoveryScan, TrackedSocket } from "../../host/index.ts";
import { servingOwners } from "../naming/listener-owners.ts";
import type { ServiceNamer } from "../naming/service-namer.ts";

/** Whose end of a connection it is, and how that is known. */
export interface Owner {
  service: string | null;
  pid: number | null;
  startTicks: number | null;
  attribution: "process_fd" | "listening_socket" | "config" | null;
}

export const nobody: Owner = { service: null, pid: null, startTicks: null, attribution: null };

/** Whoever holds the socket; for a server that is not known, whoever listens. */
export function ownerOf(socket: TrackedSocket, scan: DiscoveryScan, namer: ServiceNamer): Owner {
  const isServer = socket.role === "server";
  const [pid] = scan.ownersOf(socket);
  const entry = pid === undefined ? undefined : scan.processOf(pid);
  if (entry) {
    const name = isServer ? namer.atServer(socket, entry.pid) : namer.ofProcess(entry.pid);
    return { service: name?.service ?? null, pid: entry.pid, startTicks: entry.startTicks, attribution: "process_fd" };
  }
  if (!isServer) return nobody;
  return ownerOfListener(socket, scan, namer);
}

/** Whoever listens is taken to serve what came in there. */
export function ownerOfListener(socket: TrackedSocket, scan: DiscoveryScan, namer: ServiceNamer): Owner {
  const [listener] = scan.listenersOf(socket);
  if (!listener) return nobody;
  const owners = servingOwners(scan, listener);
  const name = namer.atServer(socket, null);
  if (owners.length === 0) {
    const isSaid = name?.namedBy === "manual" || name?.namedBy === "config";
    return { service: name?.service ?? null, pid: null, startTicks: null, attribution: isSaid ? "config" : "listening_socket" };
  }
  // With one process there is no doubt which; of several, any may have accepted it.
  const only = owners.length === 1 ? scan.processOf(owners[0] ?? 0) : undefined;
  return { service: name?.service ?? null, pid: only?.pid ?? null, startTicks: only?.startTicks ?? null, attribution: "listening_socket" };
}
