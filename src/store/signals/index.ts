/** Every signal of Coral. To add one: declare it in a file beside this one and list it here; then let a collector append to it. */

import type { Signal } from "../define-signal.ts";
import { connection, event, serviceInstance } from "./discovery.ts";
import { host, hostCgroup, hostCpu, hostDisk, hostInterface, hostMount, hostProcess } from "./host.ts";
import { red, trafficLoss } from "./traffic.ts";

export const signals: readonly Signal[] = [
  host,
  hostCpu,
  hostMount,
  hostDisk,
  hostInterface,
  hostCgroup,
  hostProcess,
  serviceInstance,
  connection,
  event,
  red,
  trafficLoss,
] as readonly Signal[];
