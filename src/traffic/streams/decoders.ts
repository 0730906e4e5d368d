/** The decoders of this folder by protocol. Those of HTTP are added where a process is put together. */

import type { TrafficProtocol } from "../core/messages.ts";
import type { DecoderFactory } from "../core/protocol-decoder.ts";
import { createDnsDecoder } from "../protocols/dns.ts";
import { createKafkaDecoder } from "../protocols/kafka.ts";
import { createMemcachedDecoder } from "../protocols/memcached.ts";
import { createMongoDecoder } from "../protocols/mongodb.ts";
import { createMysqlDecoder } from "../protocols/mysql.ts";
import { createPostgresDecoder } from "../protocols/postgres.ts";
import { createRedisDecoder } from "../protocols/redis.ts";

export const databaseDecoders: Partial<Record<TrafficProtocol, DecoderFactory>> = {
  postgres: createPostgresDecoder,
  mysql: createMysqlDecoder,
  redis: createRedisDecoder,
  memcached: createMemcachedDecoder,
  mongodb: createMongoDecoder,
  kafka: createKafkaDecoder,
  dns: createDnsDecoder,
};
