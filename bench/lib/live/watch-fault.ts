/** Injects a fault, reads the summary until its first line is right, repairs the fault, and reads the summary until nothing is wrong. */

import type { ServiceSummary } from "../../../src/tools/schemas/summary.ts";
import type { LiveColony } from "./live-colony.ts";
import type { LiveFault } from "./live-fault.ts";
import { callersOf, type Role, roles } from "./live-names.ts";
import type { LiveWorld } from "./live-world.ts";

/** Length of a traffic window of the agent. */
const windowMs = 10_000;
/** Between two queries of the summary. */
const pollMs = 3_000;
/** How long a fault lasts: until it has been found for `steadyMs`, at most `faultMaxMs`. */
const faultMaxMs = 100_000;
const steadyMs = 25_000;
/** Time after the repair within which everything must be healthy. */
const repairMaxMs = 120_000;
/** Everything must be healthy for this time before the next fault. */
const calmMs = 20_000;
/** Longest wait for that. */
const calmMaxMs = 60_000;

/** What was shown for one fault, and when. */
export interface LiveResult {
  name: string;
  kind: string;
  skipped?: string;
  /** From the end of the second bad window until the first line is right and stays so; null: never. */
  foundMs: number | null;
  /** From the repair until nothing is wrong any more; null: not within two minutes. */
  goneMs: number | null;
  /** Wrongly accused services: they neither have the fault nor call the service that has it. With the accusation. */
  accused: Map<string, string>;
  /** Findings before the fault. */
  before: string;
  /** The last first line while the fault lasted. */
  seen: string;
  /** Findings at the end. */
  left: string;
}

interface UnhealthyService {
  role: Role;
  health: string;
  message: string;
}

/** Unhealthy services of the world, worst first. Other programs of the host are ignored. */
async function readUnhealthy(world: LiveWorld, colony: LiveColony): Promise<UnhealthyService[]> {
  return (await colony.summary()).flatMap(({ service, health, findings }: ServiceSummary): UnhealthyService[] => {
    const role = roles.find((one) => isRole(world, one, service));
    const isUnhealthy = health === "critical" || health === "degraded";
    // The line of a service shows its worst finding, with the cause.
    const [first, ...others] = findings.filter(({ severity }) => severity !== "info");
    const cause = others.find(({ kind }) => kind === "cause");
    const shown = [first, cause].flatMap((finding) => (finding === undefined ? [] : [finding.message]));
    return isUnhealthy && role !== undefined ? [{ role, health, message: shown.join("; ") }] : [];
  });
}

/** By its name alone, or with its port or directory as a qualifier if other programs have the same name. */
function isRole({ names, ports, directory }: LiveWorld, role: Role, service: string): boolean {
  const name = names[role];
  const port = role === "worker" || role === "load" ? null : ports[role];
  return service === name || service === `${name}:${port}` || (service.startsWith(`${name} (`) && service.includes(directory));
}

const text = ({ role, health, message }: UnhealthyService): string => `${role} ${health}: ${message}`;

/** Waits until nothing has been wrong for `forMs`; `left` is what was wrong last. */
async function settle(
  world: LiveWorld,
  colony: LiveColony,
  { maxMs, forMs }: { maxMs: number; forMs: number },
): Promise<{ calmAfterMs: number | null; left: string }> {
  const startMs = performance.now();
  let [calmSinceMs, left]: [number | null, string] = [null, ""];
  for (;;) {
    const ill = await readUnhealthy(world, colony);
    const atMs = performance.now() - startMs;
    calmSinceMs = ill.length > 0 ? null : (calmSinceMs ?? atMs);
    left = ill.length > 0 ? ill.map(text).join(" | ") : left;
    if (calmSinceMs !== null && atMs - calmSinceMs >= forMs) return { calmAfterMs: calmSinceMs, left };
    if (atMs > maxMs) return { calmAfterMs: null, left };
    await colony.wait(pollMs);
  }
}

/** Causes the fault, polls the summary until it is found, repairs it, and waits for recovery. */
export async function watchFault(world: LiveWorld, colony: LiveColony, fault: LiveFault): Promise<LiveResult> {
  const { name, kind } = fault;
  const result: LiveResult = { name, kind, foundMs: null, goneMs: null, accused: new Map(), before: "", seen: "", left: "" };
  const skipped = fault.skipReason?.(world);
  if (skipped !== undefined) return { ...result, skipped };
  // The fault before ended with calm that lasted, or with two minutes without any: it need not last again.
  const before = await settle(world, colony, { maxMs: calmMaxMs, forMs: 0 });
  result.before = before.calmAfterMs === null ? before.left : "";
  await fault.inject(world);
  await observe(world, colony, fault, result);
  await fault.repair(world);
  const { calmAfterMs, left } = await settle(world, colony, { maxMs: repairMaxMs, forMs: calmMs });
  return { ...result, goneMs: calmAfterMs, left };
}

async function observe(world: LiveWorld, colony: LiveColony, fault: LiveFault, result: LiveResult): Promise<void> {
  const startMs = Date.now();
  // The first window that is bad from its start to its end, and the one after it.
  const badMs = Math.max(windowMs, (fault.windowSeconds ?? 0) * 1_000);
  const secondBadMs = Math.ceil(startMs / windowMs) * windowMs + 2 * badMs;
  const suffering = new Set<Role>([fault.service, ...callersOf(fault.service), ...(fault.alsoSuffer ?? [])]);
  let rightMs: number | null = null;
  while (Date.now() - startMs < faultMaxMs && (rightMs === null || Date.now() - rightMs < steadyMs)) {
    await colony.wait(pollMs);
    const ill = await readUnhealthy(world, colony);
    const [first] = ill;
    result.seen = first ? text(first) : "nothing is wrong";
    const isRight = first?.role === fault.service && fault.pointers.some((pointer) => first.message.includes(pointer));
    rightMs = isRight ? (rightMs ?? Date.now()) : null;
    for (const one of ill) if (!suffering.has(one.role)) result.accused.set(one.role, text(one));
  }
  result.foundMs = rightMs === null ? null : Math.max(0, rightMs - secondBadMs);
}
