/** Which of several namesakes sends telemetry: spans and records under the bare name are those of the only one that does. */

import type { Transaction } from "../engine/database.ts";
import { textIn } from "../tables/queryable.ts";

/** Exporters send at least once a minute while there is anything to send. */
const sentWithinMinutes = 15;

/** Services among these whose exports hooks saw: OTLP over HTTP and gRPC. */
export async function telemetrySenders(transaction: Transaction, services: readonly string[], nowUs: number): Promise<Set<string>> {
  if (services.length === 0) return new Set();
  const rows = await transaction.query(
    `SELECT DISTINCT service FROM raw.red
     WHERE "time" >= make_timestamp(${nowUs}) - INTERVAL ${sentWithinMinutes} MINUTE AND role = 'client' AND service IN (${services.map(() => "?").join(", ")})
       AND (protocol = 'grpc' AND route LIKE '%opentelemetry.proto.collector.%' OR protocol = 'http' AND method = 'POST' AND regexp_full_match(route, '.*/v1/(traces|logs|metrics)'))`,
    [...services],
  );
  return new Set(rows.map((row) => textIn(row, "service")));
}
