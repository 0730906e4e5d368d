/** Who serves which listener. */

import { remembered } from "../../base/remembered.ts";
import type { DiscoveryScan, TrackedSocket } from "../../host/index.ts";

/** Programs that open sockets for others and hand them over. */
const activators = new Set(["systemd", "init", "inetd", "xinetd", "launchd"]);

/** Who serves a listener: whoever was handed it, not who keeps it open; the latter only when nobody else has it. */
export function servingOwners(scan: Pick<DiscoveryScan, "ownersOf" | "processOf">, listener: TrackedSocket): readonly number[] {
  const owners = scan.ownersOf(listener);
  if (owners.length < 2) return owners;
  const serving = owners.filter((pid) => !activators.has(scan.processOf(pid)?.name ?? ""));
  return serving.length > 0 ? serving : owners;
}

/** What each process serves, by pid. */
export function listenersByProcess(scan: DiscoveryScan): Map<number, Set<TrackedSocket>> {
  const served = new Map<number, Set<TrackedSocket>>();
  for (const listener of scan.listeners.values())
    for (const pid of servingOwners(scan, listener)) remembered(served, pid, () => new Set()).add(listener);
  return served;
}

/** Of all namespaces and both protocols together. */
export function listenersByPort(scan: Pick<DiscoveryScan, "listeners">): Map<number, TrackedSocket[]> {
  const ports = new Map<number, TrackedSocket[]>();
  for (const listener of scan.listeners.values()) remembered(ports, listener.localPort, () => []).push(listener);
  return ports;
}
