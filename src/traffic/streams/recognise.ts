/**
 * Recognises the protocol of a payload by its first bytes, never by its port, and whether it is a request or a reply. The kernel has the same rules in
 * short form: probes/protocol/recognise.h. Used for connections whose protocol or direction the kernel did not find.
 */

import type { TrafficProtocol } from "../../model/protocols.ts";
import type { Recognition } from "../core/protocol-decoder.ts";
import { isDnsHeader } from "../protocols/dns.ts";
import { isKafkaRequest } from "../protocols/kafka.ts";
import { isMemcachedCommand } from "../protocols/memcached-text.ts";
import { isMongoHeader } from "../protocols/mongodb.ts";
import { isGreeting, isMysqlCommand } from "../protocols/mysql.ts";
import { isPostgresMessage, postgresStartup } from "../protocols/postgres.ts";
import { redisCommands } from "../protocols/redis.ts";

/** True for a request of the protocol, false for a reply, null for neither. `lengthBytes` is the length of the whole payload. */
type Recogniser = (bytes: Buffer, lengthBytes: number) => boolean | null;

const http2Preface = "PRI * HTTP/2.0\r\n";
const httpMethod = /^(?:GET|HEAD|POST|PUT|DELETE|OPTIONS|PATCH|TRACE|CONNECT|PROPFIND|MKCOL|COPY|MOVE|LOCK|UNLOCK|REPORT|SEARCH) [/*h]/;
const memcachedReply =
  /^(?:VALUE \S+ \d+ \d+|END|STORED|NOT_STORED|EXISTS|NOT_FOUND|DELETED|TOUCHED|(?:CLIENT_|SERVER_)ERROR .*|VERSION .*|HD.*|EN|NF)\r\n/;

/** Tried from top to bottom: the strictest first. Without gRPC, which is recognised inside HTTP/2, and TLS, which the kernel recognises. */
const recognisers: Record<Exclude<TrafficProtocol, "grpc" | "tls">, Recogniser> = {
  http2: (bytes) => (startOf(bytes, 16) === http2Preface ? true : null),
  http: recogniseHttp,
  redis: recogniseRedis,
  postgres: recognisePostgres,
  mysql: recogniseMysql,
  mongodb: (bytes) => (bytes.length >= 16 && isMongoHeader(bytes, 0) ? bytes.readInt32LE(12) !== 1 && bytes.readInt32LE(8) === 0 : null),
  memcached: recogniseMemcached,
  kafka: (bytes, lengthBytes) => (isKafkaRequest(bytes, 0, lengthBytes) ? true : null),
  dns: recogniseDns,
};
const inOrder = Object.entries(recognisers) as [TrafficProtocol, Recogniser][];

/** With a `hint`, only that protocol is tried. */
export function recognise(bytes: Buffer, lengthBytes: number, hint: TrafficProtocol | null): Recognition | null {
  for (const [protocol, recogniser] of inOrder) {
    if (hint !== null && hint !== protocol) continue;
    const isRequest = recogniser(bytes, lengthBytes);
    if (isRequest !== null) return { protocol, isRequest };
  }
  return null;
}

function startOf(bytes: Buffer, count: number): string {
  return bytes.toString("latin1", 0, Math.min(count, bytes.length));
}

function recogniseHttp(bytes: Buffer): boolean | null {
  const start = startOf(bytes, 16);
  if (/^HTTP\/1\.[01] /.test(start)) return false;
  return httpMethod.test(start) ? true : null;
}

const redisReply = /^(?:\+[A-Z]{2,}[^\r\n]*\r\n|-[A-Z]{3,}[ \r]|:-?\d+\r\n|\$(?:-1|\d+)\r\n|%\d+\r\n|_\r\n)/;

/** Both sides send arrays of strings, so only known commands are recognised. Inline commands look too much like other text. */
function recogniseRedis(bytes: Buffer): boolean | null {
  const start = startOf(bytes, 64);
  const verb = /^\*[1-9]\d{0,6}\r\n\$[1-9]\d{0,2}\r\n([A-Za-z.]+)(?=\r\n|$)/.exec(start)?.[1]?.toUpperCase();
  // The acknowledgement of a subscription looks like the command, up to its number.
  const isAcknowledged = verb?.endsWith("SUBSCRIBE") === true && /^\*3\r\n(?:\$\d+\r\n[^\r]*\r\n){2}:\d/.test(start);
  if (isAcknowledged) return false;
  if (verb !== undefined && (redisCommands.has(verb) || verb.includes("."))) return true;
  return redisReply.test(start) ? false : null;
}

function recognisePostgres(bytes: Buffer, lengthBytes: number): boolean | null {
  if (postgresStartup(bytes) !== null) return true;
  const type = String.fromCharCode(bytes[0] ?? 0);
  if (bytes.length < 5 || bytes.readUInt32BE(1) + 1 > Math.max(lengthBytes, 1 << 20)) return null;
  // Types that both sides use are ambiguous.
  if ("QPB".includes(type) && isPostgresMessage(bytes, true)) return true;
  if ("RTZ12".includes(type) && isPostgresMessage(bytes, false)) return isServerMessage(bytes, type) ? false : null;
  return null;
}

function isServerMessage(bytes: Buffer, type: string): boolean {
  const length = bytes.readUInt32BE(1);
  if (type === "1" || type === "2") return length === 4;
  if (type === "Z") return length === 5;
  if (type === "R") return length >= 8 && length < 2048 && bytes.length >= 9 && bytes.readUInt32BE(5) <= 12;
  return length >= 6 && length < 65_536;
}

function recogniseMysql(bytes: Buffer, lengthBytes: number): boolean | null {
  if (isGreeting(bytes)) return false;
  if (bytes.length < 5 || bytes[3] !== 0 || bytes.readUIntLE(0, 3) + 4 !== lengthBytes) return null;
  const command = bytes[4] ?? 0;
  if (!isMysqlCommand(command)) return null;
  // Query attributes precede the text, and start with zero if there are none.
  if (command === 3 || command === 0x16) return bytes[5] === 0 || /^[A-Za-z(/\s-]/.test(bytes.toString("latin1", 5, 6)) ? true : null;
  if (command === 0x17) return lengthBytes >= 14 ? true : null;
  return command === 0x0e && lengthBytes === 5 ? true : null;
}

function recogniseMemcached(bytes: Buffer, lengthBytes: number): boolean | null {
  const magic = bytes[0];
  if ((magic === 0x80 || magic === 0x81) && bytes.length >= 24) {
    const isValid = bytes[5] === 0 && bytes.readUInt16BE(2) + (bytes[4] ?? 0) <= bytes.readUInt32BE(8) && bytes.readUInt32BE(8) < 1 << 30;
    return isValid ? magic === 0x80 : null;
  }
  const start = startOf(bytes, 256);
  if (isMemcachedCommand(start) && (lengthBytes > 256 || start.includes("\r\n"))) return true;
  return memcachedReply.test(start) ? false : null;
}

/** Over TCP: with its length before it. */
function recogniseDns(bytes: Buffer, lengthBytes: number): boolean | null {
  if (bytes.length < 19 || bytes.readUInt16BE(0) + 2 > lengthBytes || !isDnsHeader(bytes, 2, bytes.length)) return null;
  return ((bytes[4] ?? 0) & 0x80) === 0;
}
