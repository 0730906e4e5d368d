import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { seededRandom } from "../store.fixture.ts";
import { DiscoveryCycle } from "./discovery-cycle.ts";
import { type ConnectionValues, calls, client, listens, server, type WatchedHosts, watchHosts } from "./watched-hosts.fixture.ts";

let watched: WatchedHosts;
beforeEach(async () => {
  watched = await watchHosts();
});
afterEach(() => watched[Symbol.asyncDispose]());

const call = ["10.0.1.5:45678", "10.0.2.8:5432"] as const;
const api = [calls("api", ["10.0.1.5"])];

/** Registers the agents first, so that everything after is observed from its start. */
async function begin(...agents: string[]): Promise<void> {
  for (const agent of agents) await watched.scan(agent, [listens("sshd", 22, [])]);
  watched.clock.pass(30_000);
}

interface Totals {
  opened: number;
  closed: number;
  out: number;
  in: number;
  retransmits: number;
}

/** Everything counted, flushed or not, by agent, role and service. */
async function totals(): Promise<Record<string, Totals>> {
  const rows = await watched.hosts.store.query(
    `SELECT v.agent_id || ' ' || v.role || ' ' || v.service AS place, sum(opened) AS opened, sum(closed) AS closed, sum(bytes_out) AS bytes_out,
       sum(bytes_in) AS bytes_in, coalesce(sum(retransmits), 0) AS retransmits
     FROM (
       SELECT view_id, opened, closed, bytes_out, bytes_in, retransmits FROM net.edge_totals
       UNION ALL SELECT view_id, pend_opened, pend_closed, pend_out, pend_in, pend_retransmits FROM net.connection_sides
     ) JOIN net.edge_views v USING (view_id) GROUP BY place ORDER BY place`,
  );
  return Object.fromEntries(
    rows.map((row) => [
      String(row["place"]),
      {
        opened: Number(row["opened"]),
        closed: Number(row["closed"]),
        out: Number(row["bytes_out"]),
        in: Number(row["bytes_in"]),
        retransmits: Number(row["retransmits"]),
      },
    ]),
  );
}

describe("amounts of a connection", () => {
  it("are those of its newest row, counted once, however often it is reported", async () => {
    await begin("node1");
    const first_seen = watched.clock.wallMs() * 1_000;
    await watched.scan("node1", api, [client("api", ...call, { first_seen, bytes_sent: 10, bytes_received: 100, retransmits: 1 })]);
    await watched.cycle();
    await watched.cycle();
    watched.clock.pass(300_000);
    await watched.scan("node1", api, [client("api", ...call, { first_seen, bytes_sent: 25, bytes_received: 150, retransmits: 1 })]);
    await watched.scan("node1", api, [client("api", ...call, { first_seen, bytes_sent: 30, bytes_received: 160, retransmits: 4 })]);
    await watched.settle();
    expect((await watched.edges()).edges).toMatchObject([
      { connections: 1, openConnections: 1, opened: 1, bytesToServer: 30, bytesToClient: 160 },
    ]);
    watched.clock.pass(30_000);
    await watched.scan("node1", api, [
      client("api", ...call, { first_seen, state: "closed", bytes_sent: 31, bytes_received: 160, retransmits: 4 }),
    ]);
    await watched.settle();
    await watched.settle();
    expect(await totals()).toEqual({ "node1 client api": { opened: 1, closed: 1, out: 31, in: 160, retransmits: 4 } });
    expect(await watched.hosts.store.query("SELECT count(*) AS sides FROM net.connection_sides")).toEqual([{ sides: 0 }]);
    expect((await watched.edges()).edges).toMatchObject([{ connections: 1, openConnections: 0, opened: 1, bytesToServer: 31 }]);
  });

  it("are zero for a connection that existed before its agent", async () => {
    await watched.scan("node1", api, [client("api", ...call, { bytes_sent: 1_000_000, bytes_received: 5 })]);
    await watched.cycle();
    const first_seen = watched.clock.wallMs() * 1_000;
    watched.clock.pass(300_000);
    await watched.scan("node1", api, [client("api", ...call, { first_seen, bytes_sent: 1_000_010, bytes_received: 5 })]);
    await watched.settle();
    expect((await watched.edges()).edges).toMatchObject([
      { connections: 1, openConnections: 1, opened: 0, bytesToServer: 10, bytesToClient: 0 },
    ]);
    expect(await watched.hosts.store.query("SELECT bytes_to_server FROM connections")).toEqual([{ bytes_to_server: 1_000_010 }]);
  });

  it("are multiplied by the connections that a row folds", async () => {
    await begin("node1");
    const many = (connections: number, bytes_sent: number): ConnectionValues =>
      client("api", "10.0.1.5:0", "203.0.113.7:443", { connections, bytes_sent, bytes_received: 0, state: "closed" });
    await watched.scan("node1", api, [many(40, 400)]);
    watched.clock.pass(30_000);
    await watched.scan("node1", api, [many(2, 20)]);
    await watched.settle();
    expect((await watched.edges()).edges).toMatchObject([{ connections: 42, openConnections: 0, opened: 42, bytesToServer: 420 }]);
  });

  it("exclude a failed attempt, and include a connection that was cut", async () => {
    await begin("node1");
    const to = (port: number, more: ConnectionValues): ConnectionValues =>
      client("api", `10.0.1.5:${port}`, "203.0.113.7:443", { bytes_sent: 0, bytes_received: 0, ...more });
    await watched.scan("node1", api, [
      to(1, { state: "failed" }),
      to(0, { state: "failed", connections: 5, refused: 3, timed_out: 2 }),
      to(2, { state: "open" }),
      to(3, { state: "closed", reset: 1 }),
    ]);
    watched.clock.pass(30_000);
    const firstSeen = (watched.clock.wallMs() - 30_000) * 1_000;
    // The same attempt reported again, and an open connection that times out.
    await watched.scan("node1", api, [
      to(1, { state: "failed", first_seen: firstSeen }),
      to(2, { state: "closed", timed_out: 1, first_seen: firstSeen }),
    ]);
    const expected = [{ connections: 2, openConnections: 0, opened: 2, failures: 8 }];
    await watched.cycle();
    expect((await watched.edges()).edges).toMatchObject(expected);
    await watched.settle();
    expect((await watched.edges()).edges).toMatchObject(expected);
    expect(await watched.hosts.store.query("SELECT connections, failures, refused, reset, timed_out FROM edges")).toEqual([
      { connections: 2, failures: 8, refused: 3, reset: 1, timed_out: 3 },
    ]);
  });

  it("are a snapshot for rows that fold many open connections", async () => {
    await begin("node1");
    const snapshot = (connections: number, bytes_sent: number): ConnectionValues =>
      client("api", "10.0.1.5:0", "203.0.113.7:443", { connections, bytes_sent, bytes_received: 0 });
    for (const [connections, bytes] of [
      [40, 400],
      [50, 600],
      [30, 350],
    ] as const) {
      await watched.scan("node1", api, [snapshot(connections, bytes)]);
      await watched.cycle();
      watched.clock.pass(300_000);
    }
    await watched.settle();
    expect(await totals()).toEqual({ "node1 client api": { opened: 50, closed: 20, out: 600, in: 0, retransmits: 0 } });
    expect((await watched.edges()).edges).toMatchObject([{ connections: 50, openConnections: 30 }]);
  });

  it("continue after its agent restarted", async () => {
    await begin("node1");
    await watched.scan("node1", api, [client("api", ...call, { bytes_sent: 10, bytes_received: 10 })]);
    await watched.settle();
    await watched.scan("node1", api, [client("api", ...call, { bytes_sent: 15, bytes_received: 10 })]);
    await watched.settle();
    expect(await totals()).toEqual({ "node1 client api": { opened: 1, closed: 0, out: 15, in: 10, retransmits: 0 } });
    expect((await watched.edges()).edges).toMatchObject([{ connections: 1, openConnections: 1 }]);
    watched.clock.pass(30_000);
    // Lower counters: another connection from the same port.
    await watched.scan("node1", api, [client("api", ...call, { bytes_sent: 2, bytes_received: 1 })]);
    await watched.settle();
    expect(await totals()).toEqual({ "node1 client api": { opened: 2, closed: 1, out: 17, in: 11, retransmits: 0 } });
  });

  it("are not added again when its agent's store is recreated", async () => {
    await begin("node1");
    const first_seen = watched.clock.wallMs() * 1_000;
    const row = client("api", ...call, { first_seen, bytes_sent: 10, bytes_received: 10 });
    await watched.scan("node1", api, [row]);
    await watched.cycle();
    await watched.scan("node1", api, [row], "epoch-2");
    await watched.settle();
    expect(await totals()).toEqual({ "node1 client api": { opened: 1, closed: 0, out: 10, in: 10, retransmits: 0 } });
  });

  it("end when it is no longer seen, and continue when it is seen again", async () => {
    await begin("node1");
    const first_seen = watched.clock.wallMs() * 1_000;
    const row = (bytes_sent: number) => client("api", ...call, { first_seen, bytes_sent, bytes_received: 0 });
    await watched.scan("node1", api, [row(10)]);
    await watched.settle();
    watched.clock.pass(16 * 60_000);
    await watched.scan("node1", api, [client("api", "10.0.1.5:9", "10.0.2.8:9")]);
    await watched.cycle();
    expect((await totals())["node1 client api"]).toMatchObject({ opened: 2, closed: 1 });
    watched.clock.pass(1_000);
    await watched.scan("node1", api, [row(12)]);
    await watched.settle();
    // The ended end was deleted, so this is a second one, and only its new amounts count.
    expect((await watched.edges()).edges.find((edge) => edge.serverPort === 5432)).toMatchObject({ openConnections: 1 });
  });

  it("stay open as long as a silent agent may still report", async () => {
    await begin("node1");
    await watched.scan("node1", api, [client("api", ...call)]);
    await watched.settle();
    watched.clock.pass(2 * 3_600_000);
    await watched.cycle();
    expect((await totals())["node1 client api"]).toMatchObject({ closed: 0 });
    expect((await watched.edges({ sinceMs: 4 * 3_600_000 })).edges).toMatchObject([{ openConnections: 0 }]);
    watched.clock.pass(5 * 3_600_000);
    await watched.cycle();
    expect((await totals())["node1 client api"]).toMatchObject({ closed: 1 });
  });

  it("are merged to hours and days, and deleted after their retention", async () => {
    await begin("node1");
    for (let step = 0; step < 27; step++) {
      await watched.scan("node1", api, [
        client("api", `10.0.1.5:${step + 1}`, "203.0.113.7:443", { state: "closed", bytes_sent: 1, bytes_received: 2 }),
      ]);
      await watched.cycle();
      watched.clock.pass(4 * 3_600_000);
    }
    await watched.settle();
    expect((await totals())["node1 client api"]).toEqual({ opened: 27, closed: 27, out: 27, in: 54, retransmits: 0 });
    const [days] = await watched.hosts.store.query("SELECT count(*) AS rows FROM net.edge_totals WHERE opened > 1");
    expect(days?.["rows"]).toBe(1);
    expect((await watched.edges({ sinceMs: 24 * 3_600_000 })).edges[0]?.connections).toBe(6);
    expect((await watched.edges({ sinceMs: 30 * 86_400_000 })).edges[0]?.connections).toBe(27);
    watched.clock.pass(31 * 86_400_000);
    await watched.cycle();
    expect(await totals()).toEqual({});
    expect(await watched.hosts.store.query("SELECT count(*) AS views FROM net.edge_views")).toEqual([{ views: 0 }]);
  });
});

describe("invalid rows", () => {
  it("are clamped and do not block others", async () => {
    const huge = Number.MAX_SAFE_INTEGER;
    await begin("node1");
    await watched.scan(
      "node1",
      [
        ...api,
        calls("b\u0000ad\u001b[31m", [], { addresses: "{not json", confidence: 7, port: -5, service: `x\u0007${"y".repeat(1_000)}` }),
      ],
      [
        client("api", ...call, {
          bytes_sent: huge,
          bytes_received: -huge,
          connections: huge,
          rtt_us: huge,
          retransmits: huge,
          first_seen: huge,
          last_seen: -huge,
        }),
        client("api", "10.0.1.5:1", "10.0.2.8:99999"),
        client("api", "10.0.1.5:-1", "10.0.2.8:1"),
        client("api", "x".repeat(500), "y:5", { client_port: 5, role: "nobody" }),
        server("web", `${"z".repeat(500)}:5`, "10.0.1.5:80", { state: "dancing", protocol: "T\u0000CP" }),
        client("api", "10.0.1.5:3", "10.0.2.8:3"),
      ],
    );
    await watched.settle();
    const { edges } = await watched.edges();
    expect(edges.map((edge) => edge.serverPort).sort((a, b) => a - b)).toEqual([3, 80, 5432]);
    expect(edges.find((edge) => edge.serverPort === 80)).toMatchObject({ protocol: "tcp", openConnections: 1 });
    const services = await watched.hosts.store.query("SELECT service, confidence FROM services WHERE starts_with(service, 'xy')");
    expect(services).toEqual([{ service: `x${"y".repeat(199)}`, confidence: 1 }]);
  });
});

describe("many external addresses", () => {
  it("are counted together beyond the limit, without losing connections", async () => {
    await begin("node1");
    const web = [listens("web", 80, ["10.0.1.5"])];
    const from = (index: number): string => `198.${51 + (index >> 16)}.${(index >> 8) & 255}.${index & 255}:1000`;
    for (let start = 0; start < 2_400; start += 800) {
      const ends = Array.from({ length: 800 }, (_, at) => server("web", from(start + at), "10.0.1.5:80", { state: "closed" }));
      await watched.scan("node1", web, ends);
      await watched.settle();
    }
    const { edges } = await watched.edges();
    expect(edges).toHaveLength(1_001);
    expect(edges[0]).toMatchObject({ class: "INGRESS", client: { kind: "external", name: "*" }, connections: 1_400 });
    expect(edges.reduce((total, edge) => total + edge.connections, 0)).toBe(2_400);
    const news = (await watched.events()).filter((event) => event.kind === "ingress-new");
    expect(news.length).toBeLessThanOrEqual(21);
  });
});

/** An end as its agent tracks it, and the expected result at the colony. */
interface Flow {
  agent: string;
  role: "client" | "server";
  service: string;
  from: string;
  to: string;
  firstUs: number;
  sent: number;
  received: number;
  retransmits: number;
  /** Its counters when the agent first saw it, if it was older than the observation. */
  base: { sent: number; received: number; retransmits: number } | undefined;
  scansLeft: number;
  age: number;
}

describe("random traffic", () => {
  it.each([1, 2])(
    "matches a naive count across restarts of colony and agents, failures and any order of cycles (seed %i)",
    async (seed) => {
      const random = seededRandom(seed);
      const pick = (count: number): number => Math.floor(random() * count);
      const agents = ["node1", "node2", "node3"];
      const addressOf = (agent: string): string => `10.0.${agent.slice(4)}.1`;
      const expected: Record<string, Totals> = {};
      const of = (flow: Flow): Totals =>
        (expected[`${flow.agent} ${flow.role} ${flow.service}`] ??= { opened: 0, closed: 0, out: 0, in: 0, retransmits: 0 });
      let flows: Flow[] = [];
      let nextPort = 1_000;

      /** Throws after the work, before its commit. */
      const flaky = (): DiscoveryCycle => {
        const real = watched.hosts.store;
        const store = Object.create(real, {
          database: { value: real.database },
          query: { value: real.query.bind(real) },
          write: {
            value: (work: Parameters<typeof real.write>[0]) =>
              real.write(async (transaction) => {
                const result = await work(transaction);
                if (random() < 0.15) throw new Error("the colony was killed");
                return result;
              }),
          },
        }) as typeof real;
        return new DiscoveryCycle({ store, settings: () => watched.settings, clock: watched.clock, rowsPerTransaction: 1 + pick(60) });
      };
      let cycle = flaky();
      const tryCycle = async (): Promise<void> => {
        await cycle.run().catch((error: unknown) => expect(String(error)).toContain("the colony was killed"));
      };

      const begin = (agent: string, isFirst: boolean): Flow[] => {
        const port = nextPort++;
        const peer = agents[pick(3)] ?? "node1";
        const isInside = random() < 0.6;
        const to = isInside ? `${addressOf(peer)}:5432` : `203.0.113.${pick(9)}:443`;
        const from = `${addressOf(agent)}:${port}`;
        const scansLeft = 1 + pick(25);
        const ends: [string, "client" | "server", string][] = [[agent, "client", `app-${pick(2)}`]];
        if (isInside && random() < 0.8) ends.push([peer, "server", "db"]);
        return ends.map(([owner, role, service]) => {
          const start = { sent: pick(50), received: pick(50), retransmits: pick(3) };
          const flow: Flow = {
            agent: owner,
            role,
            service,
            from,
            to,
            firstUs: 0,
            ...start,
            base: isFirst ? start : undefined,
            scansLeft,
            age: 0,
          };
          return flow;
        });
      };

      for (let scan = 0; scan < 22; scan++) {
        const added = Array.from({ length: 2 + pick(6) }, () => begin(agents[pick(3)] ?? "node1", scan === 0)).flat();
        const restarting = scan > 3 && random() < 0.1 ? agents[pick(3)] : undefined;
        const rows = new Map<string, ConnectionValues[]>(agents.map((agent) => [agent, []]));
        const nowUs = watched.clock.wallMs() * 1_000;
        for (const flow of [...flows, ...added]) {
          const isNew = flow.firstUs === 0;
          if (!isNew) {
            flow.sent += pick(40);
            flow.received += pick(40);
            flow.retransmits += pick(2);
          }
          const state = !isNew && flow.scansLeft <= 0 ? "closed" : "open";
          const isForgotten = restarting === flow.agent && !isNew;
          if (isNew) {
            flow.firstUs = nowUs;
            if (!flow.base) of(flow).opened++;
          }
          // A restarted agent sees open connections for the first time, and nothing of those that closed meanwhile.
          if (isForgotten && state === "closed") flow.scansLeft = 1;
          else if (isForgotten) flow.firstUs = nowUs;
          if (isNew || state === "closed" || isForgotten || flow.age % 10 === 0) {
            const values = {
              first_seen: flow.firstUs,
              last_seen: nowUs,
              state: isForgotten ? "open" : state,
              bytes_sent: flow.sent,
              bytes_received: flow.received,
              retransmits: flow.retransmits,
            };
            if (!(isForgotten && state === "closed")) {
              rows.get(flow.agent)?.push((flow.role === "client" ? client : server)(flow.service, flow.from, flow.to, values));
            } else continue;
          }
          if (state === "closed") {
            const total = of(flow);
            total.closed++;
            total.out += flow.sent - (flow.base?.sent ?? 0);
            total.in += flow.received - (flow.base?.received ?? 0);
            total.retransmits += flow.retransmits - (flow.base?.retransmits ?? 0);
            flow.age = -1;
          } else {
            flow.age++;
            flow.scansLeft--;
          }
        }
        flows = [...flows, ...added].filter((flow) => flow.age >= 0);
        const scans = agents.map((agentId) => ({
          agentId,
          instances: [
            listens("db", 5432, [addressOf(agentId)]),
            calls("app-0", [addressOf(agentId)]),
            calls("app-1", [addressOf(agentId)], { pid: 78 }),
          ],
          connections: rows.get(agentId) ?? [],
        }));
        // One transaction or several, with or without a cycle in between.
        const together = random() < 0.5 ? [scans] : scans.map((one) => [one]);
        for (const group of together) {
          await watched.scanAll(group);
          if (random() < 0.4) await tryCycle();
        }
        watched.clock.pass(30_000);
        if (random() < 0.1) {
          await watched.reopen();
          cycle = flaky();
        }
      }
      // Open connections count as of their last report. Close them, so that both counts agree.
      for (const agent of agents) {
        const ends = flows.filter((flow) => flow.agent === agent);
        for (const flow of ends) {
          const total = of(flow);
          total.closed++;
          total.out += flow.sent - (flow.base?.sent ?? 0);
          total.in += flow.received - (flow.base?.received ?? 0);
          total.retransmits += flow.retransmits - (flow.base?.retransmits ?? 0);
        }
        await watched.scan(
          agent,
          [listens("db", 5432, [addressOf(agent)])],
          ends.map((flow) =>
            (flow.role === "client" ? client : server)(flow.service, flow.from, flow.to, {
              first_seen: flow.firstUs,
              state: "closed",
              bytes_sent: flow.sent,
              bytes_received: flow.received,
              retransmits: flow.retransmits,
            }),
          ),
        );
      }
      await watched.settle();
      await watched.settle();
      expect(await totals()).toEqual(Object.fromEntries(Object.entries(expected).sort(([a], [b]) => (a < b ? -1 : 1))));
      // Edges by service merge the views of both ends.
      const { edges } = await watched.edges({ sinceMs: 30 * 86_400_000 });
      const sumOf = (role: string, key: "opened" | "closed"): number =>
        Object.entries(expected).reduce((sum, [place, total]) => sum + (place.includes(` ${role} `) ? total[key] : 0), 0);
      const called = edges.filter((edge) => edge.client.name.startsWith("app-"));
      expect(called.reduce((sum, edge) => sum + edge.connections, 0)).toBe(sumOf("client", "closed"));
      expect(called.reduce((sum, edge) => sum + edge.opened, 0)).toBe(sumOf("client", "opened"));
    },
  );
});
