import { describe, expect, it, vi } from "vitest";
import { CoralError } from "../base/errors.ts";
import type { Incident } from "../model/incident.ts";
import { colonyTools } from "./colony-tools.ts";
import type { ColonyBackend } from "./contract/backend.ts";
import { findTool, listTools } from "./contract/tool-list.ts";
import { agentOf, colonyOf, context, hostFactsOf, serviceOf } from "./sample-colony.fixture.ts";
import type { AgentList } from "./schemas/agent.ts";
import type { Answer } from "./schemas/completeness.ts";
import type { HostQueryResult } from "./schemas/host.ts";
import type { ColonyStatus } from "./schemas/status.ts";

async function call<T>(name: string, input: unknown, colony: Partial<ColonyBackend> = {}): Promise<Answer<T>> {
  const tool = findTool(colonyTools, name, "admin");
  return (await tool.call(colonyOf(colony), input, context)) as Answer<T>;
}

const messages = (answer: Answer<unknown>): string[] => answer.completeness.notes.map((note) => note.message);

describe("colonyTools", () => {
  it("offers these to callers with the permission read", () => {
    expect(listTools(colonyTools, "read").map((tool) => tool.name)).toEqual([
      "coral_get_status",
      "coral_list_agents",
      "coral_get_runtime_context",
      "coral_list_services",
      "coral_get_topology",
      "coral_get_external_dependencies",
      "coral_get_ingress",
      "coral_get_egress",
      "coral_diagnose",
      "coral_evidence",
      "coral_incidents",
      "coral_verify",
      "coral_whatif",
      "coral_slo",
      "coral_query_summary",
      "coral_query_deployments",
      "coral_query_top",
      "coral_query_red",
      "coral_query_connections",
      "coral_query_database",
      "coral_query_traces",
      "coral_query_logs",
      "coral_query_metrics",
      "coral_query_host",
      "coral_profile_functions",
      "coral_query_sql",
      "coral_list_events",
    ]);
  });

  it("changes nothing without the permission admin, or exec for commands", () => {
    for (const tool of colonyTools) {
      const needed = tool.name === "coral_agent_exec" ? "exec" : "admin";
      if (tool.changes) expect([tool.name, tool.permission]).toEqual([tool.name, needed]);
    }
    expect(listTools(colonyTools, "admin").length).toBeGreaterThanOrEqual(23);
  });

  it("describes every field of its outputs in JSON schema", () => {
    for (const tool of listTools(colonyTools, "admin"))
      expect(tool.outputSchema).toMatchObject({ type: "object", properties: { completeness: {} } });
  });
});

describe("coral_get_status", () => {
  it("mentions open incidents, and nothing when there are none", async () => {
    const symptoms = [{ service: "api", measure: "down", now: null }];
    const incident = { number: 7, severity: "critical", startedMs: 0, endedMs: 60_000, symptoms, cause: null } as unknown as Incident;
    const answer = await call<ColonyStatus>("coral_get_status", {}, { incidents: async () => ({ incidents: [incident], open: 1 }) });
    expect(answer.incidents).toMatchObject({ open: 1, worst: { id: "inc-7", service: "api", endedAt: "1970-01-01T00:01:00.000Z" } });
    expect(await call<ColonyStatus>("coral_get_status", {}, {})).not.toHaveProperty("incidents");
  });

  it("counts agents by health and shows each host's current values, worst first", async () => {
    const answer = await call<ColonyStatus>(
      "coral_get_status",
      {},
      {
        agents: async () => [
          agentOf("a"),
          agentOf("b"),
          agentOf("c", { health: "unhealthy", lastContactAgoMs: 90_000, healthReason: "not connected", connected: false }),
          agentOf("d", { revoked: true, health: "unhealthy" }),
        ],
        hostsNow: async () => [
          {
            agentId: "b",
            sampledAt: "2026-01-02T00:00:00.000Z",
            cpuBusyRatio: 0.9,
            cpuBusyMinuteRatio: 0.8,
            cpuCount: 2,
            memUsedRatio: 0.5,
            memTotalBytes: 10,
            load1m: 1,
          },
        ],
        services: async () => [
          serviceOf("a", "api", 80),
          serviceOf("b", "api", 81),
          serviceOf("b", "db", 5432),
          serviceOf("b", "old", 1, { status: "stale" }),
        ],
      },
    );
    expect(answer.agents).toEqual({ total: 3, healthy: 2, degraded: 0, unhealthy: 1, connected: 2 });
    expect(answer.hosts.map((host) => [host.hostname, host.cpuBusyRatio])).toEqual([
      ["c.example.org", null],
      ["b.example.org", 0.9],
      ["a.example.org", null],
    ]);
    expect(answer.services.total).toBe(2);
    expect(answer.warnings).toEqual([
      {
        kind: "agent-silent",
        agentId: "c",
        message: "c.example.org is unhealthy: it last reported 1m 30s ago (not connected)",
        fix: expect.stringContaining("coral agent start"),
      },
    ]);
    expect(answer.completeness).toMatchObject({ complete: false, notes: [{ kind: "agent-silent", agent: "c" }] });
  });

  it("warns with a fix about duplicates, clocks, losses and the store", async () => {
    const facts = await colonyOf().status(context);
    const answer = await call<ColonyStatus>(
      "coral_get_status",
      {},
      {
        status: async () => ({
          ...facts,
          store: { usedBytes: 96, limitBytes: 100, writeProblem: "no space left", damage: "bad checksum", diskFreeBytes: 1024 },
          duplicates: [{ agentId: "x", hostnames: ["one", "two"] }],
        }),
        agents: async () => [agentOf("a", { clockDifferenceMs: -65_000 })],
        losses: async () => [
          { agentId: "a", signal: "host", rows: 5, reason: "pruned", at: "" },
          { agentId: "a", signal: "host", rows: 7, reason: "pruned", at: "" },
          ...["host", "host_cpu", "host_disk", "red"].map((signal) => ({ agentId: "a", signal, rows: 2, reason: "disk-full", at: "" })),
          { agentId: "*", signal: "*", rows: null, reason: "colony-damaged", at: "" },
        ],
      },
    );
    expect(answer.warnings.map((warning) => [warning.kind, warning.message])).toEqual([
      ["store-write", "Cannot store rows: no space left"],
      ["store-damaged", "Cannot read part of the store: bad checksum"],
      ["disk-full", "The file system of the colony's store has 1.00 KiB free"],
      ["store-near-limit", "The store holds 96 B of 100 B: the oldest rows are pruned before their retention ends"],
      ["duplicate-agent", "Agent id x is used by 2 hosts: one, two"],
      ["clock-difference", "The clock of a.example.org is 1m 5s behind the colony's"],
      ["rows-lost", "12 rows of host from a.example.org are missing: pruned"],
      ["rows-lost", "8 rows of host, host_cpu, host_disk and 1 more from a.example.org are missing: disk-full"],
      ["rows-lost", "an unknown number of rows of all signals from all agents are missing: colony-damaged"],
    ]);
    for (const warning of answer.warnings) expect(warning.fix).not.toBe("");
    expect(answer.warnings.slice(-3).map(({ fix }) => fix)).toEqual([
      expect.stringContaining("prune unpulled rows after their retention"),
      expect.stringContaining("Free space on a.example.org"),
      expect.stringContaining("the colony's disk"),
    ]);
  });

  it("shows an agent with a slow link, with the figures", async () => {
    const link = { isSlow: true, pullMs: 2_300, pullBytes: 18_432, bytesPerSecond: 8_014 };
    const slow = agentOf("a", { link, health: "degraded", healthReason: "slow link" });
    const answer = await call<ColonyStatus>("coral_get_status", {}, { agents: async () => [slow, agentOf("b")] });
    expect(answer.agents).toMatchObject({ healthy: 1, degraded: 1, slow: 1 });
    expect(answer.completeness.notes.map(({ message }) => message)).toEqual(["a.example.org has a slow link: its newest rows arrive late"]);
    expect(answer.warnings.map(({ kind }) => kind)).not.toContain("agent-silent");
    expect(answer.hosts.map(({ agentId, isSlow }) => [agentId, isSlow])).toEqual([
      ["a", true],
      ["b", false],
    ]);
    expect(answer.warnings.map(({ kind, message }) => [kind, message])).toContainEqual([
      "agent-slow",
      "The link to a.example.org is slow: 18.0 KiB took 2s (64 kbit/s, mean of the last pulls); its newest rows arrive late",
    ]);
  });

  it("names agents that report the same processes, but not those with a pid namespace of their own", async () => {
    const on = (id: string, pidNamespace: number, bootId = "boot-1") => agentOf(id, { bootId, pidNamespace, hostname: "web-1" });
    const agents = [on("a", 7), on("b", 7), on("c", 8), on("d", 7, "boot-2"), on("e", 0), on("f", 0)];
    const answer = await call<ColonyStatus>("coral_get_status", {}, { agents: async () => agents });
    expect(answer.warnings.filter(({ kind }) => kind === "shared-processes").map(({ message }) => message)).toEqual([
      "Agents a, b observe the same processes of web-1: its services and load count once for each of them",
    ]);
  });

  it("shows an agent that cannot store rows, with the cause and its fix", async () => {
    const reason = 'no space left on the file system of "/d/agent.duckdb"; free some space';
    const full = agentOf("a", { health: "degraded", healthReason: `cannot store rows: ${reason}`, storeProblem: { at: "agent", reason } });
    const answer = await call<ColonyStatus>("coral_get_status", {}, { agents: async () => [full] });
    expect(answer.warnings.map(({ kind, message, fix }) => [kind, message, fix])).toEqual([
      ["store-write", `a.example.org cannot store rows: ${reason}`, "Free space on that file system; the agent counts what it loses"],
    ]);
    expect(answer.completeness.notes.map(({ message }) => message)).toEqual([
      `a.example.org cannot store rows: ${reason}; its newest rows are missing`,
    ]);
  });

  it("notes what the colony cannot store with the answers about each host", async () => {
    const blocked = agentOf("a", { storeProblem: { at: "colony", reason: "no space left" } });
    const answer = await call<ColonyStatus>("coral_get_status", {}, { agents: async () => [blocked] });
    expect(answer.completeness.notes.map(({ message }) => message)).toEqual([
      "a.example.org sends rows that the colony cannot store: no space left; its newest rows are missing",
    ]);
  });

  it.each([
    ['no space left on the file system of "/x"; free some space', "Free space"],
    ["memory limit of the store reached; narrow the query, or raise store.memory in its config", "store.memory"],
    ["no permission to read and write it, or its directory", "write access"],
    ["process 42 (coral) has it open", "other process"],
    ["something else", "log"],
  ])("names the fix for the cause: %s", async (problem, fix) => {
    const facts = await colonyOf().status(context);
    const store = { ...facts.store, writeProblem: `Cannot use store "/x": ${problem}` };
    const answer = await call<ColonyStatus>("coral_get_status", {}, { status: async () => ({ ...facts, store }) });
    expect(answer.warnings.find(({ kind }) => kind === "store-write")?.fix).toContain(fix);
  });

  it("shows hosts whose requests are not seen, and gaps, among what needs attention", async () => {
    const nowMs = Date.UTC(2026, 0, 2, 12);
    const hooks = { name: "traffic", available: false, reason: "CAP_BPF is missing; run as root" };
    const gap = { agentId: "a", fromMs: nowMs - 90_000, untilMs: nowMs - 30_000, reason: "killed" };
    const answer = await call<ColonyStatus>(
      "coral_get_status",
      {},
      {
        agents: async () => [agentOf("a"), agentOf("b", { capabilities: [hooks] })],
        coverage: async () => ({ unobserved: [gap], kept: [], nowMs }),
      },
    );
    expect(answer.attention).toEqual([
      {
        kind: "hooks",
        subject: "b.example.org",
        severity: "degraded",
        reason: "requests are not seen: CAP_BPF is missing; run as root",
      },
      {
        kind: "gap",
        subject: "a.example.org",
        severity: "degraded",
        reason: "observed nothing from 11:58:30 to 11:59:30 UTC (1m): its agent was killed or crashed",
      },
    ]);
  });

  it("counts an agent once after it restarted with a new home on the same host", async () => {
    const host = { hostname: "vm", machineId: "m1" };
    const before = agentOf("vm-1", { ...host, connected: false, health: "unhealthy", lastContactAt: "2026-01-02T00:00:00.000Z" });
    const after = agentOf("vm-2", { ...host, firstSeenAt: "2026-01-02T00:00:05.000Z" });
    const beside = agentOf("vm-3", {
      ...host,
      firstSeenAt: "2026-01-01T00:00:00.000Z",
      connected: false,
      health: "unhealthy",
      lastContactAt: "2026-01-02T03:00:00.000Z",
    });
    const elsewhere = agentOf("vm-4", { hostname: "vm", machineId: "m2", connected: false, health: "unhealthy" });
    const agents = async () => [before, after, beside, elsewhere];
    const status = await call<ColonyStatus>("coral_get_status", {}, { agents });
    expect(status.agents).toMatchObject({ total: 3, healthy: 1, unhealthy: 2 });
    expect(status.warnings.map(({ agentId }) => agentId)).toEqual(["vm-3", "vm-4"]);
    const listed = await call<AgentList>("coral_list_agents", {}, { agents });
    expect(listed.agents.map(({ agentId }) => agentId)).toEqual(["vm-2", "vm-3", "vm-4"]);
    const found = await call<AgentList>("coral_list_agents", { match: "vm-1" }, { agents });
    expect(found.total).toBe(1);
  });

  it("explains how to start without agents", async () => {
    const answer = await call<ColonyStatus>("coral_get_status", {}, { agents: async () => [] });
    expect(answer.warnings).toMatchObject([{ kind: "no-agents", fix: expect.stringContaining("coral agent start") }]);
    const facts = await colonyOf().status(context);
    const starting = async () => ({ ...facts, colony: { ...facts.colony, uptimeMs: 2_000 } });
    expect((await call<ColonyStatus>("coral_get_status", {}, { agents: async () => [], status: starting })).warnings).toEqual([]);
  });

  it("stays short with a thousand silent agents", async () => {
    const agents = Array.from({ length: 1_000 }, (_, index) => agentOf(`agent-${index}`, { health: "unhealthy", lastContactAgoMs: null }));
    const answer = await call<ColonyStatus>("coral_get_status", {}, { agents: async () => agents });
    expect(answer.hosts).toHaveLength(50);
    expect(answer.warnings).toHaveLength(50);
    expect(messages(answer)).toContain("50 of 1000 hosts are shown; coral_list_agents lists them all");
    expect(messages(answer)).toContain("981 more agents are silent");
    expect(JSON.stringify(answer).length).toBeLessThan(40_000);
  });
});

describe("coral_list_agents", () => {
  const agents = async () => [agentOf("web-2"), agentOf("web-1"), agentOf("db-1", { health: "degraded" })];

  it("sorts, filters and truncates", async () => {
    const all = await call<AgentList>("coral_list_agents", {}, { agents });
    expect(all.agents.map((agent) => agent.agentId)).toEqual(["db-1", "web-1", "web-2"]);
    expect(all.agents[0]?.details).toBeUndefined();
    expect((await call<AgentList>("coral_list_agents", { match: "WEB" }, { agents })).total).toBe(2);
    expect((await call<AgentList>("coral_list_agents", { health: "degraded" }, { agents })).agents).toMatchObject([{ agentId: "db-1" }]);
    const cut = await call<AgentList>("coral_list_agents", { limit: 1, verbose: true }, { agents });
    expect(cut.agents).toMatchObject([{ agentId: "db-1", details: { kernel: "6.12" } }]);
    expect(cut.total).toBe(3);
    expect(messages(cut)).toEqual(["1 of 3 agents are shown; narrow with match or health, or raise limit"]);
  });
});

describe("coral_query_host", () => {
  it("shows the busiest hosts, and notes how many are not shown", async () => {
    const host = vi.fn<ColonyBackend["host"]>((request, callContext) => colonyOf().host(request, callContext));
    const now = (agentId: string, cpuBusyRatio: number) => ({
      agentId,
      sampledAt: null,
      cpuBusyRatio,
      cpuBusyMinuteRatio: cpuBusyRatio,
      cpuCount: 1,
      memUsedRatio: 0,
      memTotalBytes: 1,
      load1m: 0,
    });
    const answer = await call<HostQueryResult>(
      "coral_query_host",
      { limit: 1, points: 60, since: "1h" },
      { host, hostsNow: async () => [now("web-1", 0.1), now("web-2", 0.7)] },
    );
    expect(host).toHaveBeenCalledWith({ agentIds: ["web-2"], sinceMs: 3_600_000, maxPoints: 60 }, context);
    expect(answer).toMatchObject({
      matched: 2,
      sinceMs: 3_600_000,
      hosts: [{ agentId: "web-2", hostname: "web-2.example.org", health: "healthy", findings: [] }],
    });
    expect(messages(answer)).toEqual(["1 of 2 hosts are shown; name one with agent, or raise limit"]);
  });

  it("shows one host by name, with findings and losses", async () => {
    const losses = vi.fn<ColonyBackend["losses"]>(async () => [{ agentId: "web-1", signal: "host", rows: 4, reason: "pruned", at: "" }]);
    const answer = await call<HostQueryResult>(
      "coral_query_host",
      { agent: "web-1" },
      {
        losses,
        host: async () => [
          hostFactsOf("web-1", {
            totals: { samples: 20, oomKills: 2, tcpListenOverflows: 0, tcpListenDrops: 0, tcpRetransmitRatio: 0, tcpRetransmits: 0 },
          }),
        ],
      },
    );
    expect(losses).toHaveBeenCalledWith(expect.objectContaining({ agentIds: ["web-1"], sinceMs: 300_000 }), context);
    expect(answer.hosts[0]?.findings).toMatchObject([{ rule: "oom-kill", severity: "critical", value: 2, threshold: 0 }]);
    expect(answer.completeness).toMatchObject({ complete: false, notes: [{ kind: "rows-lost", rows: 4, signal: "host" }] });
  });

  it("notes when nothing is stored or no agent has joined", async () => {
    const empty = await call<HostQueryResult>(
      "coral_query_host",
      { agent: "web-1" },
      {
        host: async () => [hostFactsOf("web-1", { sampledAt: null, latest: null, totals: { ...hostFactsOf("x").totals, samples: 0 } })],
      },
    );
    expect(messages(empty)).toEqual(["no host sample of web-1.example.org is stored in this window"]);
    const nobody = await call<HostQueryResult>("coral_query_host", {}, { agents: async () => [] });
    expect(nobody.hosts).toEqual([]);
    expect(messages(nobody)[0]).toContain("coral agent start");
  });
});

describe("coral_query_sql", () => {
  const result = { columns: [{ name: "n", type: "BIGINT" }], rows: [[1]], truncated: false, elapsedMs: 1, views: ["host_1m"] };

  it("passes limits on and notes gaps in the views", async () => {
    const sql = vi.fn<ColonyBackend["sql"]>(async () => result);
    const losses = vi.fn<ColonyBackend["losses"]>(async () => []);
    const answer = await call(
      "coral_query_sql",
      { sql: "SELECT 1", maxRows: 7, timeout: "3s" },
      { sql, losses, agents: async () => [agentOf("a", { health: "degraded" })] },
    );
    expect(sql).toHaveBeenCalledWith({ sql: "SELECT 1", maxRows: 7, maxBytes: 4_194_304, timeoutMs: 3_000 }, context);
    expect(losses).toHaveBeenCalledWith({ signals: ["host"] }, context);
    expect(answer).toMatchObject({ rows: [[1]], completeness: { complete: false } });
  });

  it("notes a truncated result, and no missing agents when no view was read", async () => {
    const answer = await call(
      "coral_query_sql",
      { sql: "SELECT 1" },
      { sql: async () => ({ ...result, truncated: true, views: [] }), agents: async () => [agentOf("a", { health: "degraded" })] },
    );
    expect(messages(answer)).toEqual(["the result was cut after 1 rows; aggregate, add LIMIT, or raise maxRows"]);
  });
});

describe("coral_list_events", () => {
  it("reads one more than requested, to detect whether there are more", async () => {
    const event = {
      at: "2026-01-01T00:00:00.000Z",
      kind: "agent-joined",
      severity: "info" as const,
      agentId: "web-1",
      service: null,
      message: "joined",
      details: {},
    };
    const events = vi.fn<ColonyBackend["events"]>(async ({ limit }) => Array.from({ length: limit }, () => event));
    const answer = await call<{ events: unknown[] }>(
      "coral_list_events",
      { agent: "web-1", kind: "agent-joined", service: "api", limit: 2 },
      { events },
    );
    expect(events).toHaveBeenCalledWith(
      { sinceMs: 3_600_000, limit: 3, agentIds: ["web-1"], kind: "agent-joined", service: "api" },
      context,
    );
    expect(answer.events).toHaveLength(2);
    expect(answer.completeness.notes).toMatchObject([{ kind: "limit" }]);
  });
});

describe("the token tools", () => {
  const made = {
    tokenId: "t1",
    kind: "join" as const,
    name: "",
    permission: null,
    createdAt: "",
    expiresAt: "",
    usesLeft: 1,
    state: "usable" as const,
    token: "coral_join_x",
  };

  it("create tokens with safe defaults", async () => {
    const createToken = vi.fn<ColonyBackend["createToken"]>(async () => made);
    expect(await call("coral_create_token", { kind: "join" }, { createToken })).toMatchObject({ token: "coral_join_x" });
    expect(createToken).toHaveBeenLastCalledWith({ kind: "join", name: "", permission: null, validForMs: 86_400_000, uses: 1 }, context);
    await call("coral_create_token", { kind: "user", validFor: "30d" }, { createToken });
    expect(createToken).toHaveBeenLastCalledWith(
      { kind: "user", name: "", permission: "read", validForMs: 30 * 86_400_000, uses: null },
      context,
    );
    await expect(call("coral_create_token", {}, { createToken })).rejects.toThrow('"kind" must be one of join, user');
    await expect(call("coral_revoke_token", {})).rejects.toThrow('"tokenId" is missing; it must be a string');
    await expect(call("coral_create_token", { kind: "join", permission: "admin" }, { createToken })).rejects.toThrow("is for user tokens");
  });

  it("list and revoke", async () => {
    const { token: _secret, ...info } = made;
    expect(await call("coral_list_tokens", {}, { tokens: async () => [info] })).toMatchObject({ tokens: [{ tokenId: "t1" }] });
    // A secret that reached the list by mistake is stripped by the schema.
    expect(JSON.stringify(await call("coral_list_tokens", {}, { tokens: async () => [made] }))).not.toContain("coral_join_x");
    expect(
      await call("coral_revoke_token", { tokenId: "t1" }, { revokeToken: async (tokenId) => ({ tokenId, revokedAt: "now" }) }),
    ).toMatchObject({ tokenId: "t1" });
  });

  it("revoke one agent, by id when a name is shared", async () => {
    const revokeAgent = vi.fn<ColonyBackend["revokeAgent"]>(async (agentId) => ({ agentId, hostname: "h", revokedAt: "now" }));
    await call("coral_revoke_agent", { agent: "web-1" }, { revokeAgent });
    expect(revokeAgent).toHaveBeenCalledWith("web-1", context);
    const agents = async () => [agentOf("a1", { hostname: "twin" }), agentOf("a2", { hostname: "twin" })];
    await expect(call("coral_revoke_agent", { agent: "twin" }, { revokeAgent, agents })).rejects.toThrow("use one of these ids: a1, a2");
  });
});

describe("findTool()", () => {
  const codeOf = (name: string, permission: "read" | "admin"): string => {
    try {
      findTool(colonyTools, name, permission);
      return "found";
    } catch (error) {
      return CoralError.from(error).code;
    }
  };

  it("distinguishes unknown from not permitted", () => {
    expect(codeOf("coral_get_status", "read")).toBe("found");
    expect(codeOf("coral_create_token", "admin")).toBe("found");
    expect(codeOf("coral_create_token", "read")).toBe("not-permitted");
    expect(codeOf("coral_make_coffee", "admin")).toBe("not-found");
  });
});
