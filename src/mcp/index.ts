/**
 * The Model Context Protocol over the tool table: `/mcp` of a daemon (streamable HTTP) and `coral mcp proxy` (stdio). Speaks the current protocol
 * version and the earlier ones.
 *
 * @module
 */

export { handleMcpRequest } from "./handle-mcp-request.ts";
export { runMcpProxy } from "./stdio-proxy.ts";
