/** Every signal of Coral. To add one, declare it in a file of this folder and list it here, then let a collector append to it. */

import { audit } from "./audit.ts";
import type { SegmentSignal } from "./define-segment-signal.ts";
import type { Signal } from "./define-signal.ts";
import { connection, event, serviceInstance } from "./discovery.ts";
import { host, hostCgroup, hostCpu, hostDisk, hostInterface, hostMount, hostProcess } from "./host.ts";
import { logPattern, logRecord } from "./log.ts";
import { metricLoss, metricPoint, metricSeries } from "./metrics.ts";
import { profile, profileLoss, profileStack } from "./profiles.ts";
import { span } from "./span.ts";
import { spanEdge, spanRed, spanService } from "./spans-derived.ts";
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
  metricPoint,
  metricSeries,
  metricLoss,
  logPattern,
  audit,
  profile,
  profileStack,
  profileLoss,
] as readonly Signal[];

/** Derived by the colony from pulled segments; agents do not have them. */
export const derivedSignals: readonly Signal[] = [spanRed, spanService, spanEdge] as readonly Signal[];

/** Signals stored as segments: they have too many rows for a table. */
export const segmentSignals: readonly SegmentSignal[] = [span, logRecord] as readonly SegmentSignal[];
