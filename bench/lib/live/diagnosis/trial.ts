/** What a diagnosis is tried with: a fault of the live world with the right answer, or a control in which nothing is wrong. */

import type { LiveColony } from "../live-colony.ts";
import type { LiveFault } from "../live-fault.ts";
import type { Role } from "../live-names.ts";
import type { LiveWorld } from "../live-world.ts";
import type { SlowDisk } from "./slow-disk.ts";

export interface TrialWorld {
  world: LiveWorld;
  colony: LiveColony;
  /** Null: this host cannot make one. */
  disks: { orders: SlowDisk | null; payments: SlowDisk | null };
}

export interface FaultTrial {
  name: string;
  /** Services that are right as the first cause; `host` is the machine. */
  services: readonly (Role | "host")[];
  /** Kinds of cause that are right. */
  kinds: readonly string[];
  /** Texts of which the first cause's pointer, summary or evidence must contain one: what to look at, not the symptom alone. */
  pointers: readonly string[];
  skipReason?: (trial: TrialWorld) => string | undefined;
  inject: (trial: TrialWorld) => Promise<void> | void;
  repair: (trial: TrialWorld) => Promise<void> | void;
}

export type ControlTrial = Pick<FaultTrial, "name" | "skipReason" | "inject" | "repair">;

/** A fault that other benchmarks have, too. */
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
