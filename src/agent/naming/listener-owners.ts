/** Which processes serve which listener. */

import { remembered } from "../../base/remembered.ts";
import type { DiscoveryScan, TrackedSocket } from "../../host/index.ts";

/** Programs that open sockets and hand them to others. */
const activators = new Set(["systemd", "init", "inetd", "xinetd", "launchd"]);

/** The processes that serve a listener: those it was handed to; the activator only when no other process has it. */
export function servingOwners(scan: Pick<DiscoveryScan, "ownersOf" | "processOf">, listener: TrackedSocket): readonly number[] {
  const owners = scan.ownersOf(listener);
  if (owners.length < 2) return owners;
  const serving = owners.filter((pid) => !activators.has(scan.processOf(pid)?.name ?? ""));
  return serving.length > 0 ? serving : owners;
}

/** Listeners served by each process, by pid. */
export function listenersByProcess(scan: DiscoveryScan): Map<number, Set<TrackedSocket>> {
  const served = new Map<number, Set<TrackedSocket>>();
  for (const listener of scan.listeners.values())
    for (const pid of servingOwners(scan, listener)) remembered(served, pid, () => new Set()).add(listener);
  return served;
}

/** Across all namespaces and both protocols. */
export function listenersByPort(scan: Pick<DiscoveryScan, "listeners">): Map<number, TrackedSocket[]> {
  const ports = new Map<number, TrackedSocket[]>();
  for (const listener of scan.listeners.values()) remembered(ports, listener.localPort, () => []).push(listener);
  return ports;
}
