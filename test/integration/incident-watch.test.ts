import { expect, it } from "vitest";
import { bucketOf, fineLayout, sparse } from "../../src/base/latency-histogram.ts";
import { createLogger } from "../../src/base/log.ts";
import { createDiagnosisBackend } from "../../src/colony/diagnosis/diagnosis-backend.ts";
import { IncidentWatch } from "../../src/colony/incidents/incident-watch.ts";
import { loadIncidents } from "../../src/store/colony/index.ts";
import { BaselineCache, queryEvents, queryServices, querySummary } from "../../src/store/queries/index.ts";
import { openStoredHosts, type SignalRows } from "../../src/store/queries/stored-hosts.fixture.ts";
import { agentOf, colonyOf } from "../../src/tools/sample-colony.fixture.ts";

const windowMs = 10_000;
const agentId = "web-1";
const services = ["gateway", "admin", "postgres"];
const { signal } = new AbortController();

/** gateway → postgres ← admin; gateway and admin are called from outside. Usual durations in milliseconds. */
const routes = [
  { service: "gateway", role: "server", peer: null, route: "/shop", ms: 40 },
  { service: "gateway", role: "client", peer: "postgres", route: "items", ms: 3 },
  { service: "admin", role: "server", peer: null, route: "/orders", ms: 25 },
  { service: "admin", role: "client", peer: "postgres", route: "orders", ms: 3 },
  { service: "postgres", role: "server", peer: null, route: "items", ms: 2 },
  { service: "postgres", role: "server", peer: null, route: "orders", ms: 2 },
];

/** Sixty requests per route, with slight variation between windows. */
function windowOf(atMs: number, slow: readonly string[]): NonNullable<SignalRows["red"]> {
  return routes.map(({ service, role, peer, route, ms }, index) => {
    const requests = 60;
    const mean = ms * (1 + 0.05 * Math.sin(atMs / 7_000 + index)) + (slow.includes(route) ? 200 : 0);
    const counts = new Array<number>(fineLayout.bucketCount).fill(0);
    for (const [part, share] of [0.25, 0.5, 0.25].entries())
      counts[bucketOf(fineLayout, mean * (0.8 + 0.2 * part) * 1e6)] = requests * share;
    const durations = sparse(counts);
    return {
      ...{ atMs, service, role, peer, route, method: "GET", protocol: "http", server_port: 80, peer_address: "127.0.0.1", status: "200" },
      ...{ is_error: false, window_ms: windowMs, requests, duration_us: Math.round(mean * 1_000 * requests), duration_lo: durations.lo },
      ...{ duration_counts: durations.counts, queue_counts: [], first_byte_counts: [] },
    };
  });
}

async function openWorld(startMs: number) {
  const now = { ms: startMs };
  const clock = { wallMs: () => now.ms, monotonicMs: () => now.ms };
  const hosts = await openStoredHosts(clock, { hasDerived: true });
  const memory = new BaselineCache();
  const failures: string[] = [];
  const { store } = hosts;
  const backend = colonyOf({
    ...createDiagnosisBackend({ store, clock }),
    agents: async () => [agentOf(agentId)],
    summary: async (request) => ({
      ...(await querySummary(store, { ...request, nowMs: now.ms }, memory)),
      ...{ nowMs: now.ms, aliases: new Map() },
    }),
    services: (request) => queryServices(store, request),
    events: (request) => queryEvents(store, { ...request, nowMs: now.ms }),
  });
  const names = { labelOf: (text: string) => text, idOf: (text: string) => text, textsOf: (label: string) => [label] };
  const watch = new IncidentWatch({
    ...{ store, backend, clock, notify: () => {}, names: () => Promise.resolve(names) },
    newest: () => now.ms,
    settings: () => ({ isEnabled: true, closeAfterMs: 20_000 }),
    log: createLogger("test", "warn", ({ message, fields }) => failures.push(`${message} ${String(fields["error"] ?? "")}`)),
  });
  for (const [index, service] of services.entries())
    await store.write((transaction) =>
      transaction.run(
        `INSERT INTO net.service_registry (service, agent_id, protocol, port, method, named_by, confidence, status, managed, promoted, present, instances, pid, start_ticks,
           first_seen, last_seen, known_since)
         VALUES (?, ?, 'tcp', ?, 'listening_socket', 'script', 1, 'discovered', false, false, true, 1, 1, 1, make_timestamp(?), make_timestamp(?), make_timestamp(?))`,
        [service, agentId, 80 + index, startMs * 1_000, startMs * 1_000, startMs * 1_000],
      ),
    );
  return { now, clock, hosts, watch, failures };
}

it("opens one incident for two entry services of one slow database, with the diagnosed cause and with evidence while that is kept", async () => {
  const { now, clock, hosts, watch, failures } = await openWorld(Date.UTC(2026, 0, 5, 12));
  await using stored = hosts;
  const quiet = Array.from({ length: 120 }, (_, index) => windowOf(now.ms + (index + 1) * windowMs, []));
  now.ms += quiet.length * windowMs;
  await stored.add(agentId, { red: quiet.flat() });
  await stored.store.rollup();
  const step = async (...slow: string[]): Promise<void> => {
    now.ms += windowMs;
    await stored.add(agentId, { red: windowOf(now.ms, slow) });
    await watch.step(signal);
  };
  await step();
  expect(await loadIncidents(stored.store, { limit: 10 })).toEqual([]);
  const [shop, orders] = [
    ["/shop", "items"],
    ["/orders", "orders"],
  ];
  const one = async () => (await loadIncidents(stored.store, { limit: 10 })).filter(({ state }) => state !== "merged");
  for (let window = 0; window < 15 && (await one())[0]?.cause?.confidence === undefined; window++) await step(...shop);
  // More than two minutes later, so that only the cause links the two.
  for (let window = 0; window < 13; window++) await step(...shop);
  for (let window = 0; window < 5; window++) await step(...shop, ...orders);
  const [open, ...others] = await one();
  expect(others).toEqual([]);
  expect(failures).toEqual([]);
  expect(open?.cause).toMatchObject({ service: "postgres", kind: "slow" });
  expect(new Set(open?.symptoms.map(({ service }) => service))).toEqual(new Set(["gateway", "admin"]));
  for (let window = 0; window < 45 && (await one())[0]?.state !== "closed"; window++) await step();
  expect(await one()).toMatchObject([{ number: open?.number, state: "closed", cause: { service: "postgres" } }]);

  const events = await queryEvents(stored.store, { nowMs: now.ms, sinceMs: 3_600_000, limit: 100 });
  const severities = (part: string) => new Set(events.filter(({ message }) => message.includes(part)).map(({ severity }) => severity));
  expect(severities("all indicators within limits")).toEqual(new Set(["info"]));
  expect(severities("recovered after")).toEqual(new Set(["info"]));

  // As after a restart, when newer diagnoses have replaced its evidence.
  await stored.store.write((transaction) => transaction.run("DELETE FROM registry.evidence"));
  await stored.reopen();
  const { evidence } = createDiagnosisBackend({ store: stored.store, clock });
  const ids = open?.cause?.evidence.map(({ id }) => id) ?? [];
  expect(ids.length).toBeGreaterThan(0);
  for (const id of ids) expect(await evidence(id)).toMatchObject({ id, service: "postgres" });
  expect(await evidence("ev-00000000")).toBeUndefined();
});
