/**
 * Turns traffic seen by kernel hooks into requests: protocol decoders, aggregation, TLS plaintext, captures. Runs in its own process, because a fault in
 * native code may end it; the agent supervises that process and receives its reports.
 * @module
 */

export type {
  CapturedRequest,
  CaptureOrder,
  ConnectionEvent,
  ConnectionsReport,
  ConnectionsState,
  LossKind,
  PeerConnections,
  PeerName,
  RequestGroup,
  TrafficName,
  TrafficOrder,
  TrafficReport,
  TrafficSettings,
  TrafficState,
  TrafficWindow,
  UnseenRequests,
} from "./core/messages.ts";
export { runTrafficProcess, type TrafficChannel } from "./run-traffic-process.ts";
export { type SuperviseTrafficOptions, superviseTraffic, type TrafficStatus, type TrafficSupervisor } from "./supervise-traffic.ts";
