/** Span attributes with their own column. Decoders fill the columns, filters read them. */

/**
 * Text attributes with their own column, by current and older semantic conventions. The first one that a span has wins. Another one with a
 * different value, or with another type, stays among the attributes.
 */
export const promotedText = {
  http_method: ["http.request.method", "http.method"],
  http_route: ["http.route"],
  url_path: ["url.path", "http.target"],
  server_address: ["server.address", "net.peer.name", "net.host.name", "http.host", "net.sock.peer.name"],
  peer_service: ["service.peer.name", "peer.service"],
  db_system: ["db.system.name", "db.system"],
  db_name: ["db.namespace", "db.name"],
  db_operation: ["db.operation.name", "db.operation"],
  db_statement: ["db.query.text", "db.statement"],
  rpc_system: ["rpc.system.name", "rpc.system"],
  rpc_service: ["rpc.service"],
  rpc_method: ["rpc.method"],
  messaging_system: ["messaging.system"],
  messaging_destination: ["messaging.destination.name", "messaging.destination"],
  messaging_operation: ["messaging.operation.name", "messaging.operation.type", "messaging.operation"],
  error_type: ["error.type"],
  exception_type: ["exception.type"],
  user_agent: ["user_agent.original", "http.user_agent"],
} as const;

/** Integer attributes with their own column; digits as text count too. */
export const promotedInt = {
  http_status_code: ["http.response.status_code", "http.status_code"],
  rpc_status_code: ["rpc.response.status_code", "rpc.grpc.status_code"],
  server_port: ["server.port", "net.peer.port", "net.host.port"],
} as const;
