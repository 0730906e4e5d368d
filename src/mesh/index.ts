/**
 * Everything between daemons: the colony's authority and port, the agent's identity, tunnel and calls, the unix socket of each daemon
 * and the JSON endpoints behind it. The only room that opens sockets between daemons.
 *
 * @module
 */

export {
  type Authority,
  createAuthority,
  type IssueAgentOptions,
  type IssueColonyOptions,
  type IssuedCertificate,
  openAuthority,
} from "./authority.ts";
export { type Caller, requireAgent } from "./caller.ts";
export { type CallOptions, type IssuedIdentity, joinColony, registerAgent, renewCertificate } from "./colony-client.ts";
export {
  type ColonyServer,
  type ColonyServerLimits,
  type ColonyServerOptions,
  type ColonyServerStats,
  type RefusalReason,
  type ServerTls,
  startColonyServer,
} from "./colony-server.ts";
export { CommandInput, type TargetInput } from "./command-input.ts";
export {
  type ClientMessage,
  type CommandApproval,
  type CommandAsk,
  type CommandEnd,
  type CommandPlace,
  type CommandStart,
  type CommandTargets,
  type DaemonMessage,
  type RoutedTarget,
  type SkippedTarget,
  type TerminalShape,
} from "./command-messages.ts";
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
} from "./command-session.ts";
export {
  type ControlTarget,
  type JsonRequest,
  requestBytes,
  requestFrames,
  requestJson,
  requestLines,
  requestText,
} from "./control-client.ts";
export { type ControlServer, type ControlServerOptions, type PeerCredentials, startControlServer } from "./control-server.ts";
export { type DialledTunnel, type DialTunnelOptions, dialTunnel } from "./dial-tunnel.ts";
export type { Frame, FrameStream, FrameToSend } from "./frame-stream.ts";
export { type HealthServer, type HealthServerOptions, startHealthServer } from "./health-server.ts";
export type { HttpHandler, HttpRequest, HttpResponse } from "./http-handler.ts";
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
} from "./http-routes.ts";
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
} from "./identity.ts";
export { createOtlpClient, type OtlpClient, type OtlpClientOptions, type OtlpSendOutcome } from "./otlp-client.ts";
export type { OtlpLimits, OtlpServer } from "./otlp-grpc-server.ts";
export type { OtlpAnswer, OtlpExport, OtlpHandler, OtlpSignalName } from "./otlp-messages.ts";
export { type OtlpListen, type OtlpServers, type OtlpServersOptions, startOtlpServers } from "./otlp-servers.ts";
export type { FileOwner } from "./private-file.ts";
export { type ProbeOutcome, type ProbeRequest, probeEndpoint } from "./probe-endpoint.ts";
export { type ReadUrlOptions, type ReadUrlResult, readUrl } from "./read-url.ts";
export { fromConnectError, toConnectError } from "./rpc-errors.ts";
export { runtimeFromWire, runtimeToWire } from "./runtime-wire.ts";
export { createSecret, formatToken, hashSecret, parseToken, type Token, type TokenKind } from "./token.ts";
export type { Tunnel, TunnelClosed, TunnelOptions } from "./tunnel.ts";
export type { FindServedFile, ServedFile } from "./tunnel-files.ts";
