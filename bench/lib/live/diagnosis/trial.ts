/** A trial of the diagnosis: a fault of the live world with the expected cause, or a control without a fault. */

import type { LiveColony } from "../live-colony.ts";
import type { LiveFault } from "../live-fault.ts";
import type { Role } from "../live-names.ts";
import type { LiveWorld } from "../live-world.ts";
import type { SlowDisk } from "./slow-disk.ts";

/** What a trial may change or inspect. */
export interface TrialWorld {
  world: LiveWorld;
  colony: LiveColony;
  /** Null: not possible on this host. */
  disks: { orders: SlowDisk | null; payments: SlowDisk | null };
}

/** A fault with the service that a diagnosis must name. */
export interface FaultTrial {
  name: string;
  /** Services that are accepted as the first cause; `host` is the machine. */
  services: readonly (Role | "host")[];
  /** Accepted kinds of cause. */
  kinds: readonly string[];
  /** The first cause's pointer, summary or evidence must contain one of these texts: it must name the cause, not only the symptom. */
  pointers: readonly string[];
  skipReason?: (trial: TrialWorld) => string | undefined;
  inject: (trial: TrialWorld) => Promise<void> | void;
  repair: (trial: TrialWorld) => Promise<void> | void;
}

export type ControlTrial = Pick<FaultTrial, "name" | "skipReason" | "inject" | "repair">;

/** A fault that other benchmarks use as well. */
export function asTrial(fault: LiveFault | undefined, right: Pick<FaultTrial, "kinds" | "pointers">): FaultTrial {
  if (fault === undefined) throw new Error("The live world has no such fault");
  return {
    name: fault.name,
    services: [fault.service],
    ...right,
    skipReason: ({ world }) => fault.skipReason?.(world),
    inject: ({ world }) => fault.inject(world),
    repair: ({ world }) => fault.repair(world),
  };
}
