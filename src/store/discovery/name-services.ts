/** Names of services: the best name of each id, its unique label, and the texts that resolve to it. */

import type { Transaction } from "../engine/database.ts";
import { numberIn, textIn, textsIn } from "../tables/queryable.ts";
import { labelServices, type NamedService } from "./label-services.ts";

/** Limit per service; the newest are kept. */
const maxAliases = 32;
const maxQualifiers = 8;
/** A service gone for longer is not restarting: another service of its name may use the bare name. */
const restartSeconds = 60;
/** Rows per statement. */
const batchSize = 500;

const textList = (column: string, max: number): string =>
  `list_transform(CASE WHEN ${column} IS NULL THEN [] ELSE json_extract_string(${column}, '$[*]') END, lambda x: left(x, 200))[:${max}]`;

/**
 * Call after consumeInstances(): reads its temporary table `instance_now` for services that are new, renamed or have other aliases. Leaves
 * the temporary table `named_now` with them and their former names. Returns their number.
 */
export async function nameServices(transaction: Transaction): Promise<number> {
  await transaction.run(
    `CREATE OR REPLACE TEMP TABLE named_now AS
     WITH best AS (
       SELECT service, first(coalesce(name, service) ORDER BY managed DESC, is_latest DESC, confidence DESC, coalesce(started, scan) DESC, pid) AS name,
         first(named_by ORDER BY managed DESC, is_latest DESC, confidence DESC, coalesce(started, scan) DESC, pid) AS named_by, max(confidence) AS confidence,
         any_value(nullif(origin, '')) AS origin, ${textList("any_value(qualifiers)", maxQualifiers)} AS qualifiers,
         list_sort(list_distinct(flatten(list(${textList("aliases", maxAliases)})))) AS aliases
       FROM instance_now GROUP BY service
     )
     SELECT b.service, b.name, b.named_by, b.confidence, coalesce(b.origin, o.origin) AS origin, b.qualifiers, CASE WHEN o.name <> b.name THEN o.name END AS old_name, coalesce(o.label, b.name) AS label,
       list_distinct(b.aliases || coalesce(o.aliases, []))[:${maxAliases}] AS aliases,
       CASE WHEN o.name <> b.name THEN list_distinct([o.name] || o.former_names)[:${maxAliases}] ELSE coalesce(o.former_names, []) END AS former_names
     FROM best b LEFT JOIN net.services o USING (service)
     WHERE o.service IS NULL OR o.name <> b.name OR o.named_by <> b.named_by OR o.confidence <> b.confidence OR o.origin IS DISTINCT FROM coalesce(b.origin, o.origin)
       OR o.qualifiers <> b.qualifiers OR NOT list_has_all(o.aliases, b.aliases)`,
  );
  await transaction.run("DELETE FROM net.services WHERE service IN (SELECT service FROM named_now)");
  return await transaction.run(
    `INSERT INTO net.services SELECT service, name, named_by, confidence, origin, qualifiers, aliases, former_names, label FROM named_now`,
  );
}

/**
 * Recomputes all labels, because each depends on the other services of its name. Writes only those that differ; returns whether any did. A
 * service not yet in the registry counts as current.
 */
export async function labelAll(transaction: Transaction, nowUs: number): Promise<boolean> {
  const rows = await transaction.query(
    `SELECT s.service, s.name, s.label, s.qualifiers, s.former_names, coalesce(r.is_current, true)::INT AS is_current, r.port
     FROM net.services s LEFT JOIN (
       SELECT service, bool_or(present OR gone_since > make_timestamp(${nowUs}) - INTERVAL ${restartSeconds} SECOND) AS is_current, coalesce(min(port) FILTER (port > 0 AND present), min(port) FILTER (port > 0)) AS port
       FROM net.service_registry GROUP BY service
     ) r USING (service) ORDER BY s.service`,
  );
  const services = rows.map((row): StoredService => {
    const port = row["port"] === null ? [] : [`:${numberIn(row, "port")}`];
    return {
      id: textIn(row, "service"),
      name: textIn(row, "name"),
      qualifiers: [...new Set([...textsIn(row, "qualifiers"), ...port])],
      isCurrent: numberIn(row, "is_current") === 1,
      formerNames: textsIn(row, "former_names"),
      label: textIn(row, "label"),
    };
  });
  const labels = labelServices(services);
  const changed = services.filter(({ id, label }) => labels.get(id) !== label);
  for (const { id } of changed) await transaction.run("UPDATE net.services SET label = ? WHERE service = ?", [labels.get(id) ?? id, id]);
  const known = await readNames(transaction);
  const senders = await senderOfNames(transaction, services, known, nowUs);
  const isOther = await replaceNames(transaction, known, textsOf(services, labels, senders));
  return isOther || changed.length > 0;
}

/**
 * For names shared by several services: the one that sends telemetry, which uses the bare name. It keeps the name when it stops sending,
 * until another one starts. If several send, the name resolves to none.
 */
async function senderOfNames(
  transaction: Transaction,
  services: readonly StoredService[],
  known: ReadonlyMap<string, ResolvedService>,
  nowUs: number,
): Promise<Map<string, string>> {
  const byName = new Map<string, StoredService[]>();
  for (const service of services) if (service.isCurrent) byName.set(service.name, [...(byName.get(service.name) ?? []), service]);
  const contested = [...byName].filter(([, namesakes]) => namesakes.length > 1);
  const sending = await telemetrySenders(
    transaction,
    contested.flatMap(([, namesakes]) => namesakes.map(({ id }) => id)),
    nowUs,
  );
  const found = new Map<string, string>();
  for (const [name, namesakes] of contested) {
    const meant = known.get(name);
    // A name that only one service had was also its label.
    const before = meant?.label === name ? undefined : namesakes.find(({ id }) => id === meant?.service);
    const [only, ...others] = namesakes.filter(({ id }) => sending.has(id));
    const sender = only ?? before;
    if (sender && others.length === 0) found.set(name, sender.id);
  }
  return found;
}

/** What a text resolves to. */
interface ResolvedService {
  service: string;
  label: string;
}

interface StoredService extends NamedService {
  formerNames: readonly string[];
  label: string;
}

/** Ids, and the names that exactly one service has, had, or sends telemetry under. */
function textsOf(
  services: readonly StoredService[],
  labels: ReadonlyMap<string, string>,
  senders: ReadonlyMap<string, string>,
): Map<string, ResolvedService> {
  const texts = new Map<string, ResolvedService>();
  const owner = (id: string): ResolvedService => ({ service: id, label: labels.get(id) ?? id });
  const add = (claims: readonly (readonly [text: string, id: string])[]): void => {
    const owners = new Map<string, Set<string>>();
    for (const [text, id] of claims) owners.set(text, (owners.get(text) ?? new Set()).add(id));
    for (const [text, ids] of owners) {
      const [only] = ids;
      if (only !== undefined && ids.size === 1 && !texts.has(text)) texts.set(text, owner(only));
      // A name shared by several resolves to none of them, not to one that had it before.
      else if (!texts.has(text)) texts.set(text, { service: text, label: text });
    }
  };
  add(services.map(({ id }) => [id, id]));
  add([...senders]);
  add(services.filter(({ isCurrent }) => isCurrent).map(({ id, name }) => [name, id]));
  add(services.map(({ id, name }) => [name, id]));
  add(services.flatMap(({ id, formerNames }) => formerNames.map((name) => [name, id] as const)));
  for (const [text, { service, label }] of texts) if (text === service && text === label) texts.delete(text);
  return texts;
}

async function readNames(transaction: Transaction): Promise<Map<string, ResolvedService>> {
  const rows = await transaction.query("SELECT text, service, label FROM net.service_names");
  return new Map(rows.map((row) => [textIn(row, "text"), { service: textIn(row, "service"), label: textIn(row, "label") }]));
}

async function replaceNames(
  transaction: Transaction,
  known: ReadonlyMap<string, ResolvedService>,
  wanted: ReadonlyMap<string, ResolvedService>,
): Promise<boolean> {
  const fresh = [...wanted].filter(
    ([text, { service, label }]) => known.get(text)?.service !== service || known.get(text)?.label !== label,
  );
  const gone = [...known.keys()].filter((text) => !wanted.has(text)).concat(fresh.map(([text]) => text));
  for (let at = 0; at < gone.length; at += batchSize) {
    const texts = gone.slice(at, at + batchSize);
    await transaction.run(`DELETE FROM net.service_names WHERE text IN (${texts.map(() => "?").join(", ")})`, texts);
  }
  for (let at = 0; at < fresh.length; at += batchSize) {
    const batch = fresh.slice(at, at + batchSize);
    const values = batch.flatMap(([text, { service, label }]) => [text, service, label]);
    await transaction.run(`INSERT INTO net.service_names VALUES ${batch.map(() => "(?, ?, ?)").join(", ")}`, values);
  }
  return gone.length > 0;
}

/** Exporters send at least once a minute while there is anything to send. */
const sentWithinMinutes = 15;

/**
 * Those of several services with one name whose exports hooks saw: OTLP over HTTP and gRPC. If only one exports, spans and records under the bare
 * name belong to it.
 */
async function telemetrySenders(transaction: Transaction, services: readonly string[], nowUs: number): Promise<Set<string>> {
  if (services.length === 0) return new Set();
  const rows = await transaction.query(
    `SELECT DISTINCT service FROM raw.red
     WHERE "time" >= make_timestamp(${nowUs}) - INTERVAL ${sentWithinMinutes} MINUTE AND role = 'client' AND service IN (${services.map(() => "?").join(", ")})
       AND (protocol = 'grpc' AND route LIKE '%opentelemetry.proto.collector.%' OR protocol = 'http' AND method = 'POST' AND regexp_full_match(route, '.*/v1/(traces|logs|metrics)'))`,
    [...services],
  );
  return new Set(rows.map((row) => textIn(row, "service")));
}
