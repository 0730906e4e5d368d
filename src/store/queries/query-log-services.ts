import { type Queryable, textIn } from "../tables/queryable.ts";

const servicesMax = 1_000;

/** Services that records of came within the time, by name, at most 1,000; from what agents count once a minute. */
export async function queryLogServices(
  store: Queryable,
  { sinceMs, nowMs, service }: { sinceMs: number; nowMs: number; service?: string },
): Promise<string[]> {
  const one = service === undefined ? "" : "AND service = $service";
  const rows = await store.query(
    `SELECT DISTINCT service FROM raw.log_pattern WHERE "time" >= make_timestamp(${Math.floor((nowMs - sinceMs) * 1_000)}) ${one}
     ORDER BY service LIMIT ${servicesMax}`,
    service === undefined ? {} : { service },
  );
  return rows.map((row) => textIn(row, "service"));
}
