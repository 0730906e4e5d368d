/** Requests whose duration says nothing about how fast a service is. */

interface RequestKind {
  protocol: string;
  method: string;
  route: string;
}

const redisBlocking =
  /^(?:BLPOP|BRPOP|BRPOPLPUSH|BLMOVE|BLMPOP|BZPOPMIN|BZPOPMAX|BZMPOP|WAIT|WAITAOF|SUBSCRIBE|PSUBSCRIBE|SSUBSCRIBE|MONITOR|PSYNC|SYNC)\b/i;
/** Both only block with certain arguments, which are not stored. */
const redisStreams = /^(?:XREAD|XREADGROUP)\b/i;
const sqlWaiting = /\b(?:pg_sleep(?:_for|_until)?|sleep)\s*\(|^\s*LISTEN\b|^\s*(?:START_REPLICATION|BASE_BACKUP)\b/i;
const mongoWaiting = /\b(?:getMore|hello|isMaster)\b/i;
const kafkaWaiting = /\b(?:Fetch|JoinGroup|SyncGroup)\b/i;
const grpcStreams = /\/(?:Watch|Subscribe|StreamEvents|ServerReflectionInfo|Stream[A-Z]\w*|\w+Stream)$/;
const sqlProtocols = new Set(["postgres", "mysql"]);
const telemetryPath = /^\/v1(?:development)?\/(?:traces|metrics|logs|profiles)$/;

/** It waits for something to happen: a blocking command, a subscription, a poll. Long ones are idle, not slow. */
export function isWaitingRequest({ protocol, method, route }: RequestKind): boolean {
  const text = route === "" ? method : route;
  if (protocol === "redis") return [method, text].some((one) => redisBlocking.test(one) || redisStreams.test(one));
  if (sqlProtocols.has(protocol)) return sqlWaiting.test(text) || sqlWaiting.test(method);
  if (protocol === "mongodb") return mongoWaiting.test(method) || mongoWaiting.test(text);
  if (protocol === "kafka") return kafkaWaiting.test(method) || kafkaWaiting.test(text);
  if (protocol === "grpc") return grpcStreams.test(route);
  return false;
}

/** An application's own telemetry export is not work for its callers. */
export function isTelemetryExport({ protocol, route }: Pick<RequestKind, "protocol" | "route">): boolean {
  return protocol === "grpc" ? /opentelemetry\.proto\.collector\./.test(route) : telemetryPath.test(route);
}
