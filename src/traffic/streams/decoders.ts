/** Decoders by protocol. Those of HTTP share a route templater and are added in traffic-parts.ts. */

import type { TrafficProtocol } from "../../model/protocols.ts";
import type { DecoderFactory } from "../core/protocol-decoder.ts";
import { createDnsDecoder } from "../protocols/dns.ts";
import { createKafkaDecoder } from "../protocols/kafka.ts";
import { createMemcachedDecoder } from "../protocols/memcached.ts";
import { createMongoDecoder } from "../protocols/mongodb.ts";
import { createMysqlDecoder } from "../protocols/mysql.ts";
import { createPostgresDecoder } from "../protocols/postgres.ts";
import { createRedisDecoder } from "../protocols/redis.ts";

/** Without HTTP (see above), gRPC (decoded as HTTP/2) and TLS (only the ClientHello is parsed). */
export const databaseDecoders: Record<Exclude<TrafficProtocol, "http" | "http2" | "grpc" | "tls">, DecoderFactory> = {
  postgres: createPostgresDecoder,
  mysql: createMysqlDecoder,
  redis: createRedisDecoder,
  memcached: createMemcachedDecoder,
  mongodb: createMongoDecoder,
  kafka: createKafkaDecoder,
  dns: createDnsDecoder,
};
