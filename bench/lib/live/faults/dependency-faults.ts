/** Faults of external dependencies: their callers are affected, but not the cause. */

import { type LiveFault, misbehaving } from "../live-fault.ts";

export const dependencyFaults: readonly LiveFault[] = [
  misbehaving(
    { name: "a slow provider", kind: "slow-dependency", service: "provider", pointers: ["POST /v1/charges"] },
    { routes: { "POST /v1/charges": { delayMs: 400 } } },
  ),
  misbehaving(
    { name: "a provider that fails for half", kind: "failing-dependency", service: "provider", pointers: ["POST /v1/charges"] },
    { routes: { "POST /v1/charges": { errorRatio: 0.5 } } },
  ),
];
