/** All signals of Coral. Each is a declaration from which its table, wire format and published view follow. @module */

export { type AuditEntry, type AuditRow, audit, auditChainColumns, auditChainRow, blankAuditEntry, linkAuditEntry } from "./audit.ts";
export type { SegmentSignal } from "./define-segment-signal.ts";
export type { Columns, RowOf, SampleTime, Signal } from "./define-signal.ts";
export { connection, event, serviceInstance } from "./discovery.ts";
export { ChainCheck, type ChainLink, type ChainProblem, type ChainReport, chainStart } from "./hash-chain.ts";
export { host, hostCgroup, hostCpu, hostDisk, hostInterface, hostMount, hostProcess } from "./host.ts";
export { logPattern, logRecord } from "./log.ts";
export { metricLoss, metricPoint, metricSeries } from "./metrics.ts";
export { profile, profileLoss, profileStack } from "./profiles.ts";
export { derivedSignals, segmentSignals, signals } from "./signal-list.ts";
export { span } from "./span.ts";
export { promotedInt, promotedText } from "./span-attributes.ts";
export { spanRed } from "./spans-derived.ts";
export { red, trafficLoss } from "./traffic.ts";
