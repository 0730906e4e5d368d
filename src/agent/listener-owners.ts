import type { DiscoveryScan, TrackedSocket } from "../host/index.ts";

/** Programs that open sockets for others and hand them over. */
const activators = new Set(["systemd", "init", "inetd", "xinetd", "launchd"]);

/** Who serves a listener: whoever was handed it, not who keeps it open; the latter only when nobody else has it. */
export function servingOwners(scan: Pick<DiscoveryScan, "ownersOf" | "processOf">, listener: TrackedSocket): readonly number[] {
  const owners = scan.ownersOf(listener);
  if (owners.length < 2) return owners;
  const serving = owners.filter((pid) => !activators.has(scan.processOf(pid)?.name ?? ""));
  return serving.length > 0 ? serving : owners;
}
