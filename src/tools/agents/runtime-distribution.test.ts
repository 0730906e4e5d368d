import { describe, expect, it } from "vitest";
import { sampleRuntime, sampleSidecar } from "../../model/runtime-facts.fixture.ts";
import { colonyTools } from "../colony-tools.ts";
import type { ColonyBackend, RegistrationFacts } from "../contract/backend.ts";
import { findTool } from "../contract/tool-list.ts";
import { agentOf, colonyOf, context } from "../sample-colony.fixture.ts";
import type { AgentList } from "../schemas/agent.ts";
import type { Answer } from "../schemas/completeness.ts";
import type { RuntimeContextList } from "../schemas/runtime.ts";
import type { ColonyStatus } from "../schemas/status.ts";
import { runtimeDistribution } from "./runtime-distribution.ts";
import { runtimeWarnings } from "./runtime-warnings.ts";

/** The mixed fleet: every runtime type and mode, one legacy agent, one without a runtime context. */
const fleet = [
  agentOf("frontend-001", { runtime: sampleSidecar("cri"), labels: { component: "frontend" } }),
  agentOf("api-001", { runtime: sampleSidecar("shared-ns") }),
  agentOf("api-002", { runtime: sampleSidecar("passive") }),
  agentOf("worker-001", {
    runtime: sampleRuntime({
      runtimeType: "k8s-daemonset",
      platform: { os: "linux", arch: "amd64", osVersion: "Alpine Linux 3.19.1", kernel: "6.5" },
      visibility: { allPids: true, allContainers: true, podScope: false, containers: [], namespace: "node", moreContainers: 0 },
    }),
  }),
  agentOf("db-proxy-001", { runtime: sampleRuntime() }),
  agentOf("cache-001", { runtime: sampleRuntime({ runtimeType: "docker" }) }),
  agentOf("dev-local", {
    runtime: sampleRuntime({ platform: { os: "darwin", arch: "arm64", osVersion: "macOS 14.2", kernel: "Darwin 23.3.0" } }),
  }),
  agentOf("old-001", { isLegacy: true, protocolVersion: 1, version: "0.0.9" }),
];
const registration = (change: Partial<RegistrationFacts> = {}): RegistrationFacts => ({
  warnPassiveSidecars: true,
  legacyPhase: "grace",
  legacyRejectAfter: null,
  upgradeSteps: ["Update", "Restart", "Verify"],
  ...change,
});

async function call<T>(name: string, input: unknown, colony: Partial<ColonyBackend> = {}): Promise<Answer<T>> {
  const backend = colonyOf({ agents: async () => fleet, ...colony });
  return (await findTool(colonyTools, name, "admin").call(backend, input, context)) as Answer<T>;
}

describe("runtimeDistribution()", () => {
  it("counts a mixed fleet", () => {
    const { platforms, types, capabilities, legacy } = runtimeDistribution(fleet, registration());
    expect(platforms).toEqual([
      {
        name: "Linux",
        agents: 6,
        versions: [
          { name: "Ubuntu", agents: 5 },
          { name: "Alpine Linux", agents: 1 },
        ],
      },
      { name: "macOS", agents: 1, versions: [{ name: "macOS", agents: 1 }] },
    ]);
    expect(types.map(({ name, agents, modes }) => [name, agents, modes.map((mode) => `${mode.name}: ${mode.agents}`).join(", ")])).toEqual([
      ["K8s Sidecar", 3, "CRI: 1, Passive: 1, Shared NS: 1"],
      ["Native", 2, ""],
      ["Container", 1, "Host NS: 1"],
      ["K8s DaemonSet", 1, ""],
      ["unknown", 1, ""],
    ]);
    expect(Object.fromEntries(capabilities.map(({ name, agents, of }) => [name, `${agents}/${of}`]))).toMatchObject({
      connect: "7/7",
      exec: "6/7",
      shell: "6/7",
      run: "3/7",
    });
    expect(legacy).toMatchObject({ agents: 1, percent: 12.5, listed: [{ agentId: "old-001", version: "0.0.9" }] });
  });

  it("is empty without agents", () => {
    expect(runtimeDistribution([], undefined)).toMatchObject({ platforms: [], types: [], legacy: { agents: 0, percent: 0, phase: "off" } });
  });
});

describe("runtimeWarnings()", () => {
  const kinds = (facts: Partial<RegistrationFacts>): string[] =>
    runtimeWarnings({ registration: registration(facts) }, fleet).map(({ kind }) => kind);

  it("warns of passive sidecars and legacy agents as configured", () => {
    expect(kinds({})).toEqual(["passive-sidecar", "legacy-agents"]);
    expect(kinds({ warnPassiveSidecars: false, legacyPhase: "quiet" })).toEqual([]);
    const [warning] = runtimeWarnings({ registration: registration() }, fleet);
    expect(warning).toEqual({
      kind: "passive-sidecar",
      agentId: "api-002",
      message: "api-002 in passive mode (no exec/shell support)",
      fix: "Mount CRI socket or enable shareProcessNamespace",
    });
  });

  it("states when legacy agents are rejected", () => {
    const message = (facts: Partial<RegistrationFacts>): string =>
      runtimeWarnings({ registration: registration(facts) }, fleet).at(-1)?.message ?? "";
    expect(message({})).toBe("1 legacy agent detected (12.5%)");
    expect(message({ legacyPhase: "transition", legacyRejectAfter: "2026-09-01" })).toContain("they will be rejected after 2026-09-01");
    expect(message({ legacyPhase: "enforced", legacyRejectAfter: "2026-09-01" })).toContain("rejected when they register again");
  });

  it("warns of agents that claim impossible capabilities", () => {
    const agents = [
      agentOf("liar", { runtime: sampleSidecar("cri"), runtimeProblems: ["claims run, which Kubernetes Sidecar (CRI mode) cannot do"] }),
    ];
    expect(runtimeWarnings({ registration: registration() }, agents)).toMatchObject([{ kind: "runtime-doubtful", agentId: "liar" }]);
  });
});

describe("coral_list_agents", () => {
  it.each([
    [{ runtime: "k8s-sidecar" }, "api-001 api-002 frontend-001"],
    [{ runtime: "k8s-sidecar", mode: "passive" }, "api-002"],
    [{ mode: "host-ns" }, "cache-001"],
    [{ runtime: "unknown" }, "old-001"],
    [{ runtime: "native", capability: "run" }, "db-proxy-001 dev-local"],
    // Without a runtime context every capability is assumed.
    [{ capability: "run" }, "cache-001 db-proxy-001 dev-local old-001"],
    [{ capability: "shell", runtime: "k8s-sidecar" }, "api-001 frontend-001"],
  ])("filters by %j", async (input, expected) => {
    const { agents } = await call<AgentList>("coral_list_agents", input);
    expect(agents.map(({ agentId }) => agentId).join(" ")).toBe(expected);
  });
});

describe("coral_get_status", () => {
  it("shows where each agent runs", async () => {
    const { hosts, runtimes } = await call<ColonyStatus>("coral_get_status", {});
    const shown = Object.fromEntries(hosts.map(({ agentId, runtimeType, mode, component }) => [agentId, [component, runtimeType, mode]]));
    expect(shown).toMatchObject({
      "frontend-001": ["frontend", "k8s-sidecar", "CRI"],
      "cache-001": ["cache-001.example.org", "docker", "Host NS"],
      "old-001": ["old-001.example.org", "", "-"],
    });
    expect(runtimes.types[0]).toMatchObject({ name: "K8s Sidecar", agents: 3 });
  });
});

describe("coral_get_runtime_context", () => {
  it("reads one agent or all, and notes when some are not shown", async () => {
    const asked: unknown[] = [];
    const runtimeContext: ColonyBackend["runtimeContext"] = async (request) => {
      asked.push(request);
      return { runtime: sampleSidecar("passive"), problems: [], source: "agent", note: "", history: [] };
    };
    const one = await call<RuntimeContextList>(
      "coral_get_runtime_context",
      { agent: "api-002", refresh: true, history: 3 },
      { runtimeContext },
    );
    expect(asked).toEqual([{ agentId: "api-002", refresh: true, history: 3 }]);
    expect(one).toMatchObject({ total: 1, agents: [{ agentId: "api-002", isLegacy: false, source: "agent" }] });
    expect((await call<RuntimeContextList>("coral_get_runtime_context", {}, { runtimeContext })).agents).toHaveLength(fleet.length);
    const many = Array.from({ length: 30 }, (_, index) => agentOf(`a-${index}`));
    const cut = await call<RuntimeContextList>("coral_get_runtime_context", {}, { runtimeContext, agents: async () => many });
    expect([cut.total, cut.agents.length, cut.completeness.notes.length]).toEqual([30, 20, 1]);
    await expect(call("coral_get_runtime_context", { agent: "nobody" }, { runtimeContext })).rejects.toMatchObject({ code: "not-found" });
  });
});
