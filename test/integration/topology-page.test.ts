import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { storeEndpointNames } from "../../src/store/discovery/endpoint-resolution.ts";
import { calls, client, listens, server, type WatchedHosts, watchHosts } from "../../src/store/discovery/watched-hosts.fixture.ts";
import { queryEdgeRed, queryEdges } from "../../src/store/queries/index.ts";
import { type ColonyBackend, type Completeness, colonyTools, findTool, type Topology } from "../../src/tools/index.ts";

type Answer = Topology & { completeness: Completeness };

const hosts = 6;
const addressOf = (host: number): string => `10.0.${host}.1`;
const serviceOf = (host: number, index: number): string => (host === 5 && index === 2 ? "coral" : `s${(host * 3 + index) % 14}`);
const hourMs = 3_600_000;

let watched: WatchedHosts;

/** Services on several hosts with calls between them, in and out; some external names have several addresses. */
beforeAll(async () => {
  watched = await watchHosts();
  let seed = 7;
  const random = (below: number): number => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((seed / 2_147_483_648) * below);
  };
  const ends = Array.from({ length: hosts }, (): ReturnType<typeof client>[] => []);
  for (let at = 0; at < 240; at++) {
    const host = random(hosts);
    const index = random(3);
    const port = 20_000 + at;
    const other = random(10);
    if (other < 6) {
      const [to, nth] = [random(hosts), random(3)];
      if (to === host) continue;
      const both = [`${addressOf(host)}:${port}`, `${addressOf(to)}:${8_000 + nth}`] as const;
      ends[host]?.push(client(serviceOf(host, index), ...both));
      ends[to]?.push(server(serviceOf(to, nth), ...both));
    } else if (other < 8) ends[host]?.push(client(serviceOf(host, index), `${addressOf(host)}:${port}`, `198.51.100.${random(9)}:443`));
    else if (other < 9)
      ends[host]?.push(server(serviceOf(host, index), `203.0.113.${random(4)}:${port}`, `${addressOf(host)}:${8_000 + index}`));
    // No known service listens on this port.
    else ends[host]?.push(client(serviceOf(host, index), `${addressOf(host)}:${port}`, `${addressOf((host + 1) % hosts)}:7777`));
  }
  const scan = (): Promise<void> =>
    watched.scanAll(
      ends.map((connections, host) => ({
        agentId: `agent-${host}`,
        instances: [0, 1, 2]
          .map((index) => listens(serviceOf(host, index), 8_000 + index, [addressOf(host)]))
          .concat(calls("cron", [addressOf(host)])),
        connections,
      })),
    );
  await scan();
  await watched.settle();
  const nowMs = watched.clock.wallMs();
  const named = { method: "saas", region: null, confidence: 0.9, resolvedAtMs: nowMs, expiresAtMs: nowMs + hourMs };
  await storeEndpointNames(watched.hosts.store, [
    ...[1, 2, 3].map((last) => ({ ...named, address: `198.51.100.${last}`, name: `s3-${last}.example`, provider: "AWS", product: "S3" })),
    { ...named, address: "198.51.100.4", name: "pay.example", provider: "Stripe", product: "stripe API" },
    { ...named, address: "198.51.100.5", name: "host.example", provider: "AWS", product: null },
    { ...named, address: "203.0.113.1", name: "lb.example", provider: null, product: null },
  ]);
});

afterAll(() => watched[Symbol.asyncDispose]());

/** The same query, paged by the store or by the tool. */
async function ask(input: object, who: "store" | "tool"): Promise<Answer> {
  const { store } = watched.hosts;
  const query = { nowMs: watched.clock.wallMs(), database: store.database.name };
  const backend: Partial<ColonyBackend> = {
    agents: async () => [],
    losses: async () => [],
    coverage: async () => ({ unobserved: [], kept: [], nowMs: watched.clock.wallMs() }),
    edges: async ({ page, ...request }) => await queryEdges(store, { ...request, ...query, ...(page && who === "store" ? { page } : {}) }),
    edgeRed: async (request) => await queryEdgeRed(store, { ...request, ...query }),
    spanEdges: async () => ({ edges: [], share: 1, windowMs: 0 }),
  };
  const tool = findTool(colonyTools, "coral_get_topology", "read");
  const answer = (await tool.call(backend as ColonyBackend, input, { signal: AbortSignal.timeout(60_000) })) as unknown as Answer;
  // Which five of many are listed does not matter; of fewer, their order does not matter.
  for (const list of answer.nodes.flatMap((node) => [node.agents, node.addresses])) {
    if (list.length < 5) list.sort();
    else list.fill("one of many");
  }
  return answer;
}

describe("coral_get_topology over a store", () => {
  it.each([
    ["everything", {}],
    ["few nodes", { limit: 5 }],
    ["few edges", { edges: 11 }],
    ["one edge", { edges: 1 }],
    ["few of both", { limit: 12, edges: 9 }],
    ["one class", { class: "EGRESS", edges: 4 }],
    ["Coral's own, too", { coral: true }],
  ])("is paged by the store exactly as by the tool: %s", async (_, input) => {
    const answer = await ask(input, "store");
    expect(answer).toEqual(await ask(input, "tool"));
    expect(answer.edges.length).toBeGreaterThan(0);
  });

  it("reports how many edges are not shown", async () => {
    const all = await ask({}, "store");
    const cut = await ask({ limit: 12, edges: 9 }, "store");
    expect(cut.nodes).toEqual(all.nodes.slice(0, 12));
    expect(cut.edges).toHaveLength(9);
    const { edges: _, ...everything } = all.totals;
    expect(cut.totals).toMatchObject(everything);
    const messages = cut.completeness.notes.map(({ message }) => message).join("\n");
    expect(messages).toContain(`12 of ${all.nodes.length} nodes are shown`);
    expect(messages).toMatch(/^9 of \d+ edges are shown/m);
    expect(all.nodes.map(({ id }) => id)).toEqual(
      expect.arrayContaining(["external:AWS S3", "external:stripe API", "external:host.example"]),
    );
    expect(all.nodes.some(({ kind }) => kind === "host")).toBe(true);
    expect(all.nodes.some(({ name }) => name === "coral")).toBe(false);
  });
});
