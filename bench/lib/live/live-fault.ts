/** A fault of the live world: its expected effects, injection and repair. */

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

/** A fault that can be caused in running programs and undone. */
export interface LiveFault {
  name: string;
  kind: FaultKind;
  /** The service with the cause. */
  service: Role;
  /** The first line must contain one of these texts: the route, statement, or resource. */
  pointers: readonly string[];
  /** Other affected services, besides the callers of the service. */
  alsoSuffer?: readonly Role[];
  /** Length of a window for routes with fewer than five requests in ten seconds: the time for five requests. */
  windowSeconds?: number;
  /** Why it is not possible on this host. */
  skipReason?(world: LiveWorld): string | undefined;
  inject(world: LiveWorld): Promise<void> | void;
  repair(world: LiveWorld): Promise<void> | void;
}

/** A fault inside a program, which reads its behaviour from a file. */
export function misbehaving(fault: Omit<LiveFault, "inject" | "repair">, behaviour: Behaviour): LiveFault {
  return {
    ...fault,
    inject: (world) => world.program(fault.service).behave(behaviour),
    repair: (world) => world.program(fault.service).behave({}),
  };
}
