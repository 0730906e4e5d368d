/** A fault of the live world: what is true while it lasts, and how it is made and mended. */

import type { Role } from "./live-names.ts";
import type { Behaviour } from "./live-program.ts";
import type { LiveWorld } from "./live-world.ts";

export type FaultKind =
  | "errors"
  | "slow"
  | "hot-function"
  | "blocked-event-loop"
  | "cpu-quota"
  | "out-of-memory"
  | "missing-index"
  | "lock-holder"
  | "slow-store"
  | "full-store"
  | "slow-dependency"
  | "failing-dependency"
  | "pool-exhaustion"
  | "down"
  | "hang"
  | "crash-loop"
  | "bad-configuration"
  | "bad-deploy";

export interface LiveFault {
  name: string;
  kind: FaultKind;
  /** Where the cause is. */
  service: Role;
  /** Texts of which the first line names one: the route, statement, or resource. */
  pointers: readonly string[];
  /** Others that it makes suffer, besides those that call the service. */
  alsoSuffer?: readonly Role[];
  /** Seconds until five requests have come: the length of a window where requests are rarer than that in ten seconds. */
  windowSeconds?: number;
  /** Why it cannot be made here. */
  skipReason?(world: LiveWorld): string | undefined;
  inject(world: LiveWorld): Promise<void> | void;
  repair(world: LiveWorld): Promise<void> | void;
}

/** A fault inside a program: it reads its behaviour from a file. */
export function misbehaving(fault: Omit<LiveFault, "inject" | "repair">, behaviour: Behaviour): LiveFault {
  return {
    ...fault,
    inject: (world) => world.program(fault.service).behave(behaviour),
    repair: (world) => world.program(fault.service).behave({}),
  };
}
