/**
 * Everything between daemons: the colony's authority and port, the agent's identity, tunnel and calls, the unix socket of each daemon
 * and the JSON endpoints behind it. The only room that opens sockets between daemons.
 *
 * @module
 */

export {
  createAuthority,
  openAuthority,
  type Authority,
  type IssueAgentOptions,
  type IssueColonyOptions,
  type IssuedCertificate,
} from "./authority.ts";
export { callerKey, requireAgent, type Caller } from "./caller.ts";
export { joinColony, registerAgent, renewCertificate, type CallOptions, type IssuedIdentity } from "./colony-client.ts";
export {
  startColonyServer,
  type ColonyServer,
  type ColonyServerLimits,
  type ColonyServerOptions,
  type ColonyServerStats,
  type HttpHandler,
  type HttpRequest,
  type HttpResponse,
  type ServerTls,
} from "./colony-server.ts";
export { requestJson, requestText, type ControlTarget, type JsonRequest } from "./control-client.ts";
export { startControlServer, type ControlServer, type ControlServerOptions, type PeerCredentials } from "./control-server.ts";
export { dialTunnel, type DialledTunnel, type DialTunnelOptions } from "./dial-tunnel.ts";
export {
  createHttpRoutes,
  type Authorize,
  type HttpRoutesOptions,
  type JsonReply,
  type JsonRouteContext,
  type Principal,
  type Route,
  type RouteContext,
  type RoutePermission,
} from "./http-routes.ts";
export {
  checkIdentity,
  createKey,
  isProofValid,
  loadIdentity,
  proofOf,
  saveIdentity,
  type AgentKey,
  type Identity,
  type IdentityCheck,
  type IdentityProblem,
  type ProofInput,
} from "./identity.ts";
export { type FileOwner } from "./private-file.ts";
export { coralErrorsOnWire, fromConnectError, toConnectError } from "./rpc-errors.ts";
export { createSecret, formatToken, hashSecret, isSecretOf, parseToken, type Token, type TokenKind } from "./token.ts";
export { type Tunnel, type TunnelClosed, type TunnelOptions } from "./tunnel.ts";
