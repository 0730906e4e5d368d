/**
 * Turns what kernel hooks saw of the traffic into requests: decoders of wire formats, aggregation, plaintext of TLS, capture. Runs in a process of
 * its own, because foreign code may end it; the agent supervises that process and takes its reports.
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
} from "./core/messages.ts";
export { runTrafficProcess, type TrafficChannel } from "./run-traffic-process.ts";
export { type SuperviseTrafficOptions, superviseTraffic, type TrafficStatus, type TrafficSupervisor } from "./supervise-traffic.ts";
