import { expect, it } from "vitest";
import { openStoredHosts } from "../stored-hosts.fixture.ts";
import { queryDatabaseTraffic } from "./query-database-traffic.ts";

const startMs = Date.UTC(2026, 0, 5, 12);
const minuteMs = 60_000;

it("reads statements of databases and the connections that their callers hold, before and after", async () => {
  await using hosts = await openStoredHosts({ wallMs: () => startMs + 30 * minuteMs, monotonicMs: () => 0 });
  const sent = { service: "shop", role: "client", protocol: "postgres", server_port: 5432, peer: "db", peer_address: "10.0.0.9" };
  const statement = { ...sent, method: "SELECT", route: "items", window_ms: 10_000, requests: 100 };
  const held = {
    service: "shop",
    role: "client",
    server_port: 5432,
    server_address: "10.0.0.9",
    client_address: "10.0.0.1",
    state: "open",
  };
  await hosts.add("web-1", {
    red: [
      { atMs: startMs + 5 * minuteMs, ...statement, duration_us: 100 * 2_000 },
      { atMs: startMs + 25 * minuteMs, ...statement, duration_us: 100 * 300_000 },
    ],
    connection: [
      {
        atMs: startMs,
        ...held,
        client_port: 40_001,
        connections: 1,
        first_seen: startMs * 1_000,
        last_seen: (startMs + 29 * minuteMs) * 1_000,
      },
      {
        ...{ atMs: startMs + 20 * minuteMs, ...held, client_port: 40_002, connections: 1 },
        ...{ first_seen: (startMs + 20 * minuteMs) * 1_000, last_seen: (startMs + 29 * minuteMs) * 1_000 },
      },
    ],
  });
  const times = {
    before: [{ fromMs: startMs, untilMs: startMs + 10 * minuteMs }],
    after: { fromMs: startMs + 21 * minuteMs, untilMs: startMs + 30 * minuteMs },
  };
  expect(await queryDatabaseTraffic(hosts.store, times)).toMatchObject({
    statements: [{ service: "db", port: 5432, before: { requests: 100, meanUs: 2_000 }, after: { requests: 100, meanUs: 300_000 } }],
    pools: [{ caller: "shop", service: "db", port: 5432, openBefore: 1, openAfter: { least: 2, most: 2 }, meanUsAfter: 300_000 }],
  });
});
