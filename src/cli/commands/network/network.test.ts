import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { startCpuClock } from "../../../base/cpu-time.fixture.ts";
import { colonyPaths } from "../../../config/index.ts";
import { type FakeDaemon, World } from "../../daemon.fixture.ts";
import {
  endpointUse,
  sampleServices,
  sampleTopology,
  serviceList,
  serviceOf,
  servicePlace,
  topologyEdge,
  topologyNode,
} from "../../network.fixture.ts";
import { textWidth } from "../../output/text-width.ts";

const hostile = "evil\u001b[2J\n\u202ename";

let world: World;
let colony: FakeDaemon;
beforeEach(async () => {
  world = await World.create();
  colony = await world.startColony();
});
afterEach(async () => {
  vi.unstubAllGlobals();
  await world[Symbol.asyncDispose]();
});

/** Whether the text has no control characters except line feeds. */
function expectHarmless(text: string): void {
  expect(text.replaceAll("\n", "")).not.toMatch(/[\p{Cc}\u202e]/u);
}

describe("coral network services", () => {
  it("prints the screen of the documentation", async () => {
    colony.tool("coral_list_services", serviceList(sampleServices()));
    const { stdout, code } = await world.coral("network services");
    expect(code).toBe(0);
    expect(colony.calls[0]?.body).toEqual({ limit: 10_000 });
    expect(stdout).toBe(`DISCOVERED SERVICES
━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━

SERVICE     AGENT            PORT  METHOD              INGRESS  EGRESS  STATUS
──────────────────────────────────────────────────────────────────────────────────
api         hostname-api     8080  manual              yes      yes     managed
frontend    hostname-web     3000  manual              yes      no      managed
postgres    hostname-db      5432  listening_socket    no       no      discovered
redis       hostname-cache   6379  listening_socket    no       no      discovered
worker      hostname-worker  -     traffic_inspection  no       yes     discovered
prometheus  hostname-mon     9090  listening_socket    yes      no      discovered

Total: 6 services (2 managed, 4 discovered)
`);
  });

  it.each([
    ["--discovered", { status: "discovered" }],
    ["--managed", { status: "managed" }],
    ["--discovered --managed", {}],
    [
      "--agent web-1 --service api --method manual --class ingress --since 2h",
      { agent: "web-1", service: "api", method: "manual", class: "ingress", since: "2h" },
    ],
  ])("sends the filters of %s", async (flags, input) => {
    colony.tool("coral_list_services", serviceList([]));
    const ran = await world.coral(`network services ${flags}`);
    expect(colony.calls[0]?.body).toEqual({ limit: 10_000, ...input });
    expect(ran.stdout).toContain("Total: 0 services\n");
    expect(ran.stderr).toContain("No service");
  });

  it("--class internal excludes services with external traffic, and totals the rest", async () => {
    colony.tool("coral_list_services", serviceList(sampleServices()));
    const { stdout } = await world.coral("network services --class internal");
    expect(colony.calls[0]?.body).toEqual({ limit: 10_000 });
    expect(stdout).toMatch(/postgres[\s\S]*redis/);
    expect(stdout).not.toContain("prometheus");
    expect(stdout).toContain("Total: 2 services (0 managed, 2 discovered)");
  });

  it("handles a service with several agents and ports, and a stale one", async () => {
    const twoPorts = servicePlace({ method: "manual" });
    twoPorts.ports.push({ ...(twoPorts.ports[0] as (typeof twoPorts.ports)[number]), port: 53, protocol: "udp" });
    colony.tool("coral_list_services", serviceList([serviceOf("dns", [twoPorts, servicePlace({ hostname: "b", status: "stale" })])]));
    const { stdout } = await world.coral("network services");
    expect(stdout).toMatch(/dns {6}hostname-api {2}8080 [\s\S]*dns {6}hostname-api {2}53\/udp [\s\S]*dns {6}b {13}8080 .* stale\n/);
    expect(stdout).toContain("Total: 1 service (1 managed, 0 discovered)\n");
  });

  it("prints 10,000 services, and truncates columns on a narrow terminal instead of wrapping", async () => {
    const many = Array.from({ length: 10_000 }, (_, index) => serviceOf(`service-${index}`, [servicePlace()]));
    colony.tool("coral_list_services", serviceList(many));
    const { stdout } = await world.coral("network services", { terminal: 60, env: { NO_COLOR: "1" } });
    const lines = stdout.trimEnd().split("\n");
    expect(lines).toHaveLength(10_000 + 7);
    expect(Math.max(...lines.map(textWidth))).toBeLessThanOrEqual(78);
    expect(lines[1]).toBe("━".repeat(60));
  });

  it("escapes hostile names in every format", async () => {
    colony.tool("coral_list_services", serviceList([serviceOf(hostile, [servicePlace({ hostname: hostile, exe: hostile })])]));
    for (const format of ["table", "wide", "json", "yaml", "dot"]) {
      expectHarmless((await world.coral(`network services -o ${format}`)).stdout);
    }
  });

  it("exports CSV, JSON and a graph", async () => {
    colony.tool("coral_list_services", serviceList(sampleServices()));
    const csv = (await world.coral("network services -o csv")).stdout.split("\n");
    expect(csv[0]).toMatch(/^service,agent,port,method,ingress,egress,status,agentId,/);
    expect(csv[1]).toMatch(/^api,hostname-api,8080,manual,true,true,managed,id-hostname-api,tcp,/);
    expect(JSON.parse((await world.coral("network services --json")).stdout)).toMatchObject({ total: 6, managed: 2 });
    const dot = (await world.coral("network services -o dot")).stdout;
    expect(dot).toMatch(/^digraph "services" \{\n/);
    expect(dot).toContain('label="hostname-api";\n    "id-hostname-api/api" [label="api\\n8080"');
    expect(dot).toContain('"id-hostname-worker/worker" -> "outside (egress)";');
  });
});

describe("coral network ingress and egress", () => {
  it("print the screens of the documentation", async () => {
    colony.tool("coral_get_ingress", {
      sinceMs: 1,
      total: 4,
      endpoints: [
        endpointUse({ service: "frontend", name: "lb-prod.example.com", connections: 5_678 }),
        endpointUse({ name: "lb-prod.example.com", connections: 1_245 }),
        endpointUse({ address: "198.51.100.15", name: "lb-staging.example.com", connections: 342 }),
        endpointUse({ service: "prometheus", address: "192.0.2.10", connections: 23 }),
      ],
    });
    const ingress = await world.coral("network ingress");
    expect(colony.calls[0]?.body).toEqual({ since: "24h", limit: 10_000 });
    expect(ingress.stdout).toBe(`INGRESS ENDPOINTS
━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━

SERVICE     EXTERNAL IP    RESOLVED NAME           CONNECTIONS
──────────────────────────────────────────────────────────────
api         203.0.113.42   lb-prod.example.com     1,245
api         198.51.100.15  lb-staging.example.com  342
frontend    203.0.113.42   lb-prod.example.com     5,678
prometheus  192.0.2.10     -                       23

Total: 4 external sources
`);
    colony.tool("coral_get_egress", {
      sinceMs: 1,
      total: 3,
      endpoints: [
        endpointUse({ class: "EGRESS", address: "54.230.1.1", port: 443, name: "d111.cloudfront.net", connections: 234 }),
        endpointUse({ class: "EGRESS", service: "worker", address: "2001:db8::1", port: 443, connections: 89 }),
        endpointUse({ class: "EGRESS", address: "*", port: 443, connections: 12 }),
      ],
    });
    const egress = await world.coral("network egress --service api --agent a --since 2h --coral");
    expect(colony.calls[1]?.body).toEqual({ since: "2h", limit: 10_000, service: "api", agent: "a", coral: true });
    expect(egress.stdout).toContain("EGRESS ENDPOINTS\n");
    expect(egress.stdout).toContain(
      `api      54.230.1.1:443     d111.cloudfront.net  234
worker   [2001:db8::1]:443  -                    89
api      other addresses    -                    12

Total: 3 external dependencies
`,
    );
  });

  it("print a note for no rows, and the singular for one", async () => {
    colony.tool("coral_get_egress", { sinceMs: 1, total: 0, endpoints: [] });
    const none = await world.coral("network egress");
    expect(none).toMatchObject({ code: 0 });
    expect(none.stdout).toMatch(/^EGRESS ENDPOINTS\n━+\n\nTotal: 0 external dependencies\n$/);
    expect(none.stderr).toBe("No external dependencies in the last 24h; look further back with --since\n");
    colony.tool("coral_get_egress", { sinceMs: 1, total: 1, endpoints: [endpointUse()] });
    expect((await world.coral("network egress")).stdout).toContain("Total: 1 external dependency\n");
  });

  it("show every column with -o wide and -o csv, escaped", async () => {
    colony.tool("coral_get_egress", {
      sinceMs: 1,
      total: 1,
      endpoints: [
        endpointUse({ class: "EGRESS", port: 443, name: hostile, provider: "AWS", product: "S3", firstBuild: "0123456789abcdef" }),
      ],
    });
    const wide = (await world.coral("network egress -o wide")).stdout;
    expect(wide).toContain("AWS       S3");
    expect(wide).toContain("0123456789ab ");
    expectHarmless(wide);
    expect((await world.coral("network egress -o csv")).stdout).toMatch(/^service,address,name,connections,port,protocol,scope,provider,/);
  });
});

describe("coral network topology", () => {
  it("draws the tree of the documentation", async () => {
    colony.tool("coral_get_topology", sampleTopology());
    const { stdout } = await world.coral("network topology");
    expect(colony.calls[0]?.body).toEqual({ since: "1h", limit: 10_000, edges: 5_000 });
    expect(stdout).toBe(`SERVICE TOPOLOGY (with external dependencies)
━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━

[INGRESS]
  lb-prod.example.com (203.0.113.42)
    → frontend (10.100.0.7 +1) [5,678 conn/min, HTTP]
    → api (10.100.0.5)         [1,245 conn/min, TCP 8080, confidence 0.7]

[INTERNAL]
  frontend (10.100.0.7 +1)
    → api (10.100.0.5)      [45 conn/min, HTTP]

  api (10.100.0.5)
    → postgres (10.100.0.8) [12 open, PostgreSQL]

[EGRESS]
  api (10.100.0.5)
    → s3.amazonaws.com (52.94.236.248:443 +1) [2.1 conn/min, HTTPS]
    → [2001:db8::1]:9000                      [1 seen, TCP 9000, confidence 0.5]

Internal Services: 3
External Ingress: 1 source
External Egress: 2 destinations
`);
  });

  it("shows what depends on the selected service", async () => {
    const topology = sampleTopology();
    for (const node of topology.nodes) {
      if (node.name === "frontend") Object.assign(node, { distance: 2, relation: "dependent" });
      if (node.name === "api") Object.assign(node, { distance: 1, relation: "dependent" });
      if (node.name === "s3.amazonaws.com") Object.assign(node, { distance: 0, relation: "asked" });
    }
    colony.tool("coral_get_topology", topology);
    const { stdout } = await world.coral(
      "network topology --service s3 --direction dependents --depth 3 --class egress --agent web-1 --since 5m",
    );
    expect(colony.calls[0]?.body).toEqual({
      since: "5m",
      limit: 10_000,
      edges: 20_000,
      service: "s3",
      direction: "dependents",
      depth: 3,
      class: "EGRESS",
      agent: "web-1",
    });
    expect(stdout).toContain("SERVICE TOPOLOGY of s3 (with");
    expect(stdout).toContain("Dependents: api, frontend\nDependencies: none\n");
    for (const node of topology.nodes) if (node.name === "frontend") node.relation = "attempt";
    colony.tool("coral_get_topology", topology);
    const failed = await world.coral("network topology --service s3");
    expect(failed.stdout).toContain("Dependents: api\nDependencies: none\nFailed attempts only: frontend\n");
  });

  it("draws an empty topology, and counts omitted edges of a huge one", async () => {
    colony.tool("coral_get_topology", {
      ...sampleTopology(),
      nodes: [],
      edges: [],
      totals: { services: 0, ingressSources: 0, egressDestinations: 0, edges: 0 },
    });
    const none = await world.coral("network topology");
    expect(none.stdout).toMatch(
      /^SERVICE TOPOLOGY .*\n━+\n\nInternal Services: 0\nExternal Ingress: 0 sources\nExternal Egress: 0 destinations\n$/,
    );
    expect(none.stderr).toContain("No connections in the last 1h");

    const names = Array.from({ length: 5_000 }, (_, index) => `s${index}`);
    const nodes = names.map((name) => topologyNode("service", name));
    const edges = [
      ...names.slice(1).map((name) => topologyEdge(`service:${name}`, "service:s0")),
      ...names.slice(1, 101).map((name) => topologyEdge("service:s0", `service:${name}`)),
    ];
    colony.tool("coral_get_topology", { ...sampleTopology(), nodes, edges });
    const cpuMs = startCpuClock();
    const { stdout } = await world.coral("network topology");
    // Takes under a second; quadratic in the number of edges it would take minutes.
    expect(cpuMs()).toBeLessThan(5_000);
    expect(stdout).toContain("    … and 80 more calls; -o wide shows them all\n");
    expect(stdout).toContain("  … and 4,900 more callers; narrow with --service");
    expect((await world.coral("network topology -o wide")).stdout.match(/→/g)).toHaveLength(edges.length);
  });

  it("merges many ports of one pair into one line, but not a few", async () => {
    const topology = sampleTopology();
    const ports = (count: number, from: string, to: string) =>
      Array.from({ length: count }, (_, index) =>
        topologyEdge(from, to, { port: 40_000 + index, openConnections: 2, confidence: index === 3 ? 0.7 : 0.9 }),
      );
    topology.edges = [...ports(50, "service:api", "service:frontend"), ...ports(3, "service:api", "service:postgres")];
    colony.tool("coral_get_topology", topology);
    const { stdout } = await world.coral("network topology");
    expect(stdout).toContain("→ frontend (10.100.0.7 +1) [100 open, 50 ports, confidence 0.7]\n");
    expect(stdout.match(/→ postgres/g)).toHaveLength(3);
    expect((await world.coral("network topology -o wide")).stdout.match(/→ frontend/g)).toHaveLength(50);
  });

  it("fits a narrow terminal and escapes names", async () => {
    const topology = sampleTopology();
    topology.nodes.push(topologyNode("service", hostile, { addresses: [hostile] }), topologyNode("host", "web-9"));
    topology.edges.push(topologyEdge(`service:${hostile}`, "host:web-9"), topologyEdge("service:api", `service:${hostile}`));
    colony.tool("coral_get_topology", topology);
    for (const format of ["table", "wide", "json", "yaml", "dot", "csv"]) {
      const { stdout } = await world.coral(`network topology -o ${format} --service ${hostile.replaceAll("\n", "")}`);
      // CSV is raw but quoted when it does not go to a terminal.
      if (format !== "csv") expectHarmless(stdout);
      expectHarmless((await world.coral(`network topology -o ${format}`, { terminal: 100, env: { NO_COLOR: "1" } })).stdout);
    }
    const narrow = await world.coral("network topology", { terminal: 60, env: { NO_COLOR: "1" } });
    for (const line of narrow.stdout.split("\n").filter((text) => text.includes("→"))) expect(textWidth(line)).toBeLessThanOrEqual(72);
    expect(narrow.stdout).toContain("web-9 (host)");
  });

  it("exports a graph for GraphViz", async () => {
    colony.tool("coral_get_topology", sampleTopology());
    const dot = (await world.coral("network topology -o dot")).stdout;
    expect(dot).toContain('"external:lb-prod.example.com" [label="lb-prod.example.com\\n203.0.113.42", shape="ellipse"');
    expect(dot).toMatch(/"service:frontend" -> "service:api" \[label="45 conn\/min\\nHTTP", color="gray30", penwidth="[\d.]+"\];/);
    expect(dot).toMatch(/"external:lb-prod\.example\.com" -> "service:api" \[.*style="dashed"\];/);
    expect((await world.coral("network topology -o csv")).stdout).toMatch(/^from,to,class,protocol,port,connections,/);
  });
});

describe("coral network ranges", () => {
  const aws = JSON.stringify({
    syncToken: "1",
    createDate: "2026-01-01-00-00-00",
    prefixes: [{ ip_prefix: "52.94.0.0/22", region: "eu-west-1", service: "S3", network_border_group: "eu-west-1" }],
    ipv6_prefixes: [],
  });
  const rangesDirectory = (): string => join(colonyPaths(world.home, world.colonyId).directory, "ranges");

  async function file(name: string, text: string): Promise<string> {
    await mkdir(join(world.home, "in"), { recursive: true });
    await writeFile(join(world.home, "in", name), text);
    return join(world.home, "in", name);
  }

  it("imports files, validates them, and lists them", async () => {
    const ran = await world.coral([
      "network",
      "ranges",
      "update",
      "--file",
      await file("ip-ranges.json", aws),
      await file("Our Net.txt", "10.1.0.0/16\n"),
    ]);
    expect(ran).toMatchObject({ code: 0, stderr: "" });
    expect(ran.stdout).toMatch(/^PROVIDER +RANGES +PUBLISHED +FILE\nAWS +1 +\S.*aws\.json\n.* 1 +- +our-net\.txt\n$/);
    expect((await readdir(rangesDirectory())).sort()).toEqual(["aws.json", "our-net.txt"]);
    expect(await readFile(join(rangesDirectory(), "aws.json"), "utf8")).toBe(aws);
    await writeFile(join(rangesDirectory(), "broken.json"), "{");
    const list = await world.coral("network ranges list");
    expect(list.stdout).toMatch(/AWS +1 /);
    expect(list.stdout).toContain("truncated JSON");
  });

  it("installs nothing when a file is invalid, missing or given twice", async () => {
    const good = await file("ip-ranges.json", aws);
    const bad = await file("bad.json", '{"prefixes":[{"ip_prefix":"300.0.0.0/8","service":"S3","region":"x"}]}');
    for (const [other, code, message] of [
      [bad, 64, "bad.json"],
      [join(world.home, "absent.json"), 4, "no such file"],
      [await file("copy.json", aws), 64, "both are lists of AWS"],
    ] as const) {
      const ran = await world.coral(["network", "ranges", "update", "--file", good, "--file", other]);
      expect(ran.code).toBe(code);
      expect(ran.stderr).toContain(message);
      await expect(readdir(rangesDirectory())).rejects.toThrow("ENOENT");
    }
  });

  it("downloads the published lists, and names those that failed", async () => {
    const asked: string[] = [];
    vi.stubGlobal("fetch", (url: string) => {
      asked.push(url);
      if (url.includes("cloudflare")) {
        const ipv4_cidrs = Array.from({ length: 15 }, (_, index) => `173.${index}.0.0/16`);
        return Promise.resolve(Response.json({ success: true, result: { ipv4_cidrs, ipv6_cidrs: ["2400:cb00::/32"] } }));
      }
      if (url.includes("fastly")) return Promise.resolve(new Response("gone", { status: 503 }));
      return Promise.reject(new TypeError("fetch failed", { cause: Object.assign(new Error("getaddrinfo"), { code: "ENOTFOUND" }) }));
    });
    const ran = await world.coral("network ranges update");
    expect(ran.code).toBe(0);
    expect(asked).toHaveLength(6);
    expect(ran.stdout).toMatch(/^PROVIDER .*\nCloudflare +16 /);
    expect(ran.stderr).toContain("note: AWS was not updated: https://ip-ranges.amazonaws.com/ip-ranges.json is unreachable (ENOTFOUND)\n");
    expect(ran.stderr).toContain("Fastly was not updated: https://api.fastly.com/public-ip-list returned HTTP status 503\n");
    expect(await readdir(rangesDirectory())).toEqual(["cloudflare.json"]);
  });

  it("names the fix on a host without internet, and for a colony on another machine", async () => {
    vi.stubGlobal("fetch", () => Promise.reject(new TypeError("fetch failed")));
    const offline = await world.coral("network ranges update --provider aws");
    expect(offline.code).toBe(1);
    expect(offline.stderr).toBe(
      "error: Cannot download the ranges: https://ip-ranges.amazonaws.com/ip-ranges.json is unreachable (fetch failed); on a host without internet, download them on another machine and pass them with --file\n",
    );
    const { saveContext } = await import("../../../config/index.ts");
    await saveContext(world.home, { name: "far", colonyId: "far-prod-123456", endpoint: "far.example.com:9000" });
    const far = await world.coral("network ranges update --colony far");
    expect(far.code).toBe(2);
    expect(far.stderr).toContain('run "coral network ranges update" there');
    const none = await world.coral("network ranges list --colony shop-dev");
    expect(none.stderr).toContain('run "coral network ranges update"');
  });
});
