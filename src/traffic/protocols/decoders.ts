/** The decoders of this folder by protocol. Those of HTTP are added where a process is put together. */

import type { TrafficProtocol } from "../messages.ts";
import type { DecoderFactory } from "../protocol-decoder.ts";
import { createDnsDecoder } from "./dns.ts";
import { createKafkaDecoder } from "./kafka.ts";
import { createMemcachedDecoder } from "./memcached.ts";
import { createMongoDecoder } from "./mongodb.ts";
import { createMysqlDecoder } from "./mysql.ts";
import { createPostgresDecoder } from "./postgres.ts";
import { createRedisDecoder } from "./redis.ts";

export const databaseDecoders: Partial<Record<TrafficProtocol, DecoderFactory>> = {
  postgres: createPostgresDecoder,
  mysql: createMysqlDecoder,
  redis: createRedisDecoder,
  memcached: createMemcachedDecoder,
  mongodb: createMongoDecoder,
  kafka: createKafkaDecoder,
  dns: createDnsDecoder,
};
