/**
 * Everything between daemons: the colony's authority and port, the agent's identity, tunnel and calls, the unix socket of each daemon
 * and the JSON endpoints behind it. The only room that opens sockets between daemons.
 *
 * @module
 */

export {
  type ColonyServer,
  type ColonyServerLimits,
  type ColonyServerOptions,
  type ColonyServerStats,
  type RefusalReason,
  type ServerTls,
  startColonyServer,
} from "./colony-server.ts";
export { CommandInput, type TargetInput } from "./commands/command-input.ts";
export type {
  ClientMessage,
  CommandApproval,
  CommandAsk,
  CommandEnd,
  CommandPlace,
  CommandStart,
  CommandTargets,
  DaemonMessage,
  RoutedTarget,
  SkippedTarget,
  TerminalShape,
} from "./commands/command-messages.ts";
export {
  type AskedCommand,
  brokenEnd,
  commandOrder,
  type LocalCommandOptions,
  type RunCommandOptions,
  readCommand,
  relayResponses,
  runCommand,
  serveLocalCommand,
} from "./commands/command-session.ts";
export type { Frame, FrameStream, FrameToSend } from "./commands/frame-stream.ts";
export { ConnectionSet } from "./http/connection-set.ts";
export {
  type ControlTarget,
  type JsonRequest,
  requestBytes,
  requestFrames,
  requestJson,
  requestLines,
  requestText,
} from "./http/control-client.ts";
export { type ControlServer, type ControlServerOptions, type PeerCredentials, startControlServer } from "./http/control-server.ts";
export { type HealthServer, type HealthServerOptions, startHealthServer } from "./http/health-server.ts";
export type { HttpHandler, HttpRequest, HttpResponse } from "./http/http-handler.ts";
export {
  type Authorize,
  createHttpRoutes,
  type HttpRoutesOptions,
  type JsonReply,
  type JsonRouteContext,
  type Permission,
  type Principal,
  type Route,
  type RouteContext,
  type RoutePermission,
} from "./http/http-routes.ts";
export { listen } from "./http/listen.ts";
export { type ProbeOutcome, type ProbeRequest, probeEndpoint } from "./http/probe-endpoint.ts";
export { type ReadUrlOptions, type ReadUrlResult, readUrl } from "./http/read-url.ts";
export { fromConnectError, toConnectError } from "./http/rpc-errors.ts";
export {
  type Authority,
  createAuthority,
  type IssueAgentOptions,
  type IssueColonyOptions,
  type IssuedCertificate,
  openAuthority,
} from "./trust/authority.ts";
export { type Caller, requireAgent } from "./trust/caller.ts";
export {
  type AgentKey,
  checkIdentity,
  createKey,
  generateKey,
  type Identity,
  type IdentityCheck,
  type IdentityProblem,
  isProofValid,
  type ProofInput,
  saveIdentity,
} from "./trust/identity.ts";
export type { FileOwner } from "./trust/private-file.ts";
export { createSecret, formatToken, hashSecret, parseToken, type Token, type TokenKind } from "./trust/token.ts";
export { type CallOptions, type IssuedIdentity, joinColony, registerAgent, renewCertificate } from "./tunnel/colony-client.ts";
export { type DialledTunnel, type DialTunnelOptions, dialTunnel } from "./tunnel/dial-tunnel.ts";
export { runtimeFromWire, runtimeToWire } from "./tunnel/runtime-wire.ts";
export type { Tunnel, TunnelClosed, TunnelOptions } from "./tunnel/tunnel.ts";
export type { FindServedFile, ServedFile } from "./tunnel/tunnel-files.ts";
