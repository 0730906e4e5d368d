import type { ServiceFilter } from "../../model/services.ts";
import { type Queryable, textIn } from "../tables/queryable.ts";
import { namedFilter } from "./service-filter.ts";

const servicesMax = 1_000;

/** Services with log records in the time window, by name, at most 1,000. Reads the counts that agents send once a minute. */
export async function queryLogServices(
  store: Queryable,
  { sinceMs, nowMs, service }: { sinceMs: number; nowMs: number; service?: ServiceFilter },
): Promise<string[]> {
  const filter = service === undefined ? undefined : namedFilter(service);
  const one = filter === undefined ? "" : `AND service IN (${filter.list})`;
  const rows = await store.query(
    `SELECT DISTINCT service FROM raw.log_pattern WHERE "time" >= make_timestamp(${Math.floor((nowMs - sinceMs) * 1_000)}) ${one}
     ORDER BY service LIMIT ${servicesMax}`,
    filter?.parameters ?? {},
  );
  return rows.map((row) => textIn(row, "service"));
}
