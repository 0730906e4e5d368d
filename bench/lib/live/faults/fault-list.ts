/** All faults of the live world. */

import type { LiveFault } from "../live-fault.ts";
import { dependencyFaults } from "./dependency-faults.ts";
import { processFaults } from "./process-faults.ts";
import { programFaults } from "./program-faults.ts";
import { storeFaults } from "./store-faults.ts";

export const liveFaults: readonly LiveFault[] = [...programFaults, ...storeFaults, ...dependencyFaults, ...processFaults];
