/**
 * Communication between daemons: the colony's authority and port, the agent's identity, tunnel and calls, each daemon's unix socket and JSON
 * endpoints. The only room that opens sockets between daemons.
 *
 * @module
 */

export { startColonyServer } from "./colony-server.ts";
export { type OrderKind, orderKindOf, throughOf } from "./commands/check-order.ts";
export { CommandInput, type TargetInput } from "./commands/command-input.ts";
export {
  brokenEnd,
  type CommandCall,
  commandServiceRoute,
  endReasonOf,
  localCommandRoute,
  type RefusedOrder,
  relayResponses,
  routedOrder,
  runCommand,
  type SendResponse,
} from "./commands/command-session.ts";
export {
  type CommandClient,
  type CommandEvent,
  type CommandEvents,
  type CommandOrderInit,
  type CommandOutcome,
  openCommand,
} from "./commands/open-command.ts";
export { ConnectionSet } from "./http/connection-set.ts";
export {
  type ControlTarget,
  requestBytes,
  requestJson,
  requestLines,
  requestText,
} from "./http/control-client.ts";
export { type ControlServerOptions, startControlServer } from "./http/control-server.ts";
export { startHealthServer } from "./http/health-server.ts";
export type { HttpHandler } from "./http/http-handler.ts";
export {
  type Authorize,
  createHttpRoutes,
  type JsonReply,
  type JsonRouteContext,
  type Principal,
  type Route,
  type RouteContext,
} from "./http/http-routes.ts";
export { listen } from "./http/listen.ts";
export { isLoopbackUrl } from "./http/loopback-guard.ts";
export { type ProbeOutcome, type ProbeRequest, probeEndpoint } from "./http/probe-endpoint.ts";
export { type ReadUrlOptions, type ReadUrlResult, readUrl } from "./http/read-url.ts";
export { fromConnectError, toConnectError } from "./http/rpc-errors.ts";
export { limitConnections } from "./http/waiting-connections.ts";
export { type Authority, createAuthority, openAuthority } from "./trust/authority.ts";
export { requireAgent } from "./trust/caller.ts";
export { checkIdentity, createKey, generateKey, type Identity, isProofValid, saveIdentity } from "./trust/identity.ts";
export type { FileOwner } from "./trust/private-file.ts";
export { createSecret, formatToken, hashSecret, parseToken, type Token } from "./trust/token.ts";
export { joinColony, registerAgent, renewCertificate } from "./tunnel/colony-client.ts";
export { type DialledTunnel, dialTunnel } from "./tunnel/dial-tunnel.ts";
export { runtimeFromWire, runtimeToWire } from "./tunnel/runtime-wire.ts";
export type { Tunnel } from "./tunnel/tunnel.ts";
export type { FindServedFile, ServedFile } from "./tunnel/tunnel-files.ts";
