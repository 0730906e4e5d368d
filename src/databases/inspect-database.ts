/** Reads the facts of one database within a time limit. */

import { CoralError } from "../base/errors.ts";
import type { DatabaseCredentials, DatabaseFacts } from "../model/database-facts.ts";
import { readMysql } from "./mysql/mysql-facts.ts";
import { readPostgres } from "./postgres/postgres-facts.ts";
import { readRedis } from "./redis/redis-facts.ts";
import type { DatabaseAddress } from "./wire/byte-stream.ts";

export interface InspectRequest {
  port: number;
  /** Addresses of this host besides loopback, such as a container's. */
  addresses: readonly string[];
  credentials: DatabaseCredentials;
  /** Template of a statement to explain. */
  statement: string | null;
  signal: AbortSignal;
  /** Limit from connecting to the last response; a single statement gets a quarter of it. Default 8 s. */
  timeoutMs?: number;
}

const readers = { postgres: readPostgres, mysql: readMysql, redis: readRedis };
const defaultTimeoutMs = 8_000;

export async function inspectDatabase(request: InspectRequest): Promise<DatabaseFacts> {
  const { credentials, statement, timeoutMs = defaultTimeoutMs } = request;
  const signal = AbortSignal.any([request.signal, AbortSignal.timeout(timeoutMs)]);
  let refused: CoralError | undefined;
  for (const address of addressesOf(request)) {
    try {
      return await readers[credentials.engine](address, credentials, { statement, signal, statementMs: timeoutMs / 4 });
    } catch (error) {
      const problem = CoralError.from(error);
      if (problem.details["refused"] !== true) throw problem;
      refused = problem;
    }
  }
  throw refused ?? new CoralError({ code: "unavailable", message: "cannot reach the database: it has no address on this machine" });
}

function addressesOf({ port, addresses, credentials: { engine, socket } }: InspectRequest): DatabaseAddress[] {
  if (socket !== "") {
    const isDirectory = engine === "postgres" && !/\.s\.PGSQL\.\d+$/.test(socket);
    return [{ host: "", port, socketFile: isDirectory ? `${socket.replace(/\/$/, "")}/.s.PGSQL.${port}` : socket }];
  }
  return ["127.0.0.1", "::1", ...addresses].map((host) => ({ host, port, ownAddresses: addresses }));
}
