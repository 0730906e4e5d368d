import { afterEach, beforeEach, expect, it } from "vitest";
import { calls, client, listens, server, type WatchedHosts, watchHosts } from "../discovery/watched-hosts.fixture.ts";

let watched: WatchedHosts;
beforeEach(async () => {
  watched = await watchHosts({}, { hasDerived: true });
  // The view shows connections of the current time.
  watched.clock.wall = Date.now();
});
afterEach(() => watched[Symbol.asyncDispose]());

/** Calls from spans, as the colony derives them. */
async function called(from: string, to: string, requests: number, errors: number): Promise<void> {
  const atUs = watched.clock.wallMs() * 1_000;
  await watched.hosts.store.database.write((transaction) =>
    transaction.run(
      `INSERT INTO raw.span_edge BY NAME
       SELECT (SELECT max(source) FROM internal.sources) AS source, coalesce((SELECT max(seq) FROM raw.span_edge), 0) + 1 AS seq,
         1000000 + coalesce((SELECT max(seq) FROM raw.span_edge), 0) AS ingest, make_timestamp(${atUs}) AS "time", 0 AS mono_ms,
         ? AS client, ? AS server, 'http' AS protocol, 60000 AS window_ms, ${requests} AS requests, ${errors} AS errors,
         make_timestamp(${atUs}) AS first_seen, make_timestamp(${atUs}) AS last_seen, 0 AS duration_lo, [1]::UINTEGER[] AS duration_counts`,
      [from, to],
    ),
  );
}

const edges = () =>
  watched.hosts.store.query(
    "SELECT client, server, class, confidence, evidence, protocol, port, connections, requests, errors FROM edges ORDER BY client, server, port",
  );

it("edges include calls from spans, on the row with most connections, and edges that only spans show", async () => {
  const ports = [5432, 5433];
  const listening = ports.map((port) => listens("postgres", port, ["10.0.2.8"]));
  const ends: readonly (readonly [string, string])[] = [
    ["10.0.1.5:45678", "10.0.2.8:5432"],
    ["10.0.1.5:45679", "10.0.2.8:5433"],
    ["10.0.1.5:45680", "10.0.2.8:5433"],
  ];
  await watched.scan(
    "node1",
    [calls("api", ["10.0.1.5"])],
    ends.map((each) => client("api", ...each)),
  );
  await watched.scan(
    "node2",
    listening,
    ends.map((each) => server("postgres", ...each)),
  );
  await watched.cycle();
  const common = { client: "api", server: "postgres", class: "INTERNAL", confidence: 0.9, protocol: "tcp" };
  const plain = { ...common, evidence: ["both-ends"], requests: null, errors: null };
  expect(await edges()).toEqual([
    { ...plain, port: 5432, connections: 1 },
    { ...plain, port: 5433, connections: 2 },
  ]);
  await called("api", "postgres", 20, 3);
  await called("api", "postgres", 5, 0);
  await called("web", "api", 7.5, 1);
  expect(await edges()).toEqual([
    { ...plain, port: 5432, connections: 1 },
    { ...common, evidence: ["both-ends", "spans"], port: 5433, connections: 2, requests: 25, errors: 3 },
    {
      ...{ client: "web", server: "api", class: "INTERNAL", confidence: 0.95, evidence: ["spans"], protocol: "http" },
      ...{ port: null, connections: 0, requests: 7.5, errors: 1 },
    },
  ]);
});
