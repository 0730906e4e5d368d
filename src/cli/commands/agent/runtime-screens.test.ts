import { describe, expect, it } from "vitest";
import { sampleRuntime, sampleSidecar } from "../../../model/runtime-facts.fixture.ts";
import { modeLabel, type RuntimeFacts } from "../../../model/runtime-facts.ts";
import type { AgentInfo, AgentList } from "../../../tools/index.ts";
import { agentInfo, agentStatusAnswer, statusAnswer } from "../../answers.fixture.ts";
import { useColony } from "../../daemon.fixture.ts";
import { textWidth } from "../../output/text-width.ts";

const here = useColony();

const cri = sampleSidecar("cri", { version: "2.1.0" });

/** An agent as coral_list_agents returns it with `verbose`. */
function listed(agentId: string, runtime: RuntimeFacts | null, change: Partial<AgentInfo> = {}): AgentList["agents"][number] {
  const details = agentInfo({ agentId, hostname: agentId, version: "2.1.0", runtime, labels: {}, ...change });
  const mode = runtime === null ? "-" : modeLabel(runtime);
  return { ...details, component: agentId.split("-")[0] ?? "", runtimeType: runtime?.runtimeType ?? "", mode, details };
}

describe("coral agent status", () => {
  it("shows what the agent is, section by section", async () => {
    const agent = await here.world.startAgent();
    agent.replies.set("GET /v1/status", () =>
      agentStatusAnswer({
        agentId: "frontend-001",
        version: "2.1.0",
        runtime: cri,
        store: {
          directory: "/var/lib/coral",
          epoch: "e",
          fileBytes: 47_395_635,
          rowsBySignal: { host: 1_200_000 },
          oldestAt: new Date(0).toISOString(),
        },
        colony: { id: "prod-us-east", endpoint: "colony.company.internal:9090", state: "connected", since: new Date().toISOString() },
      }),
    );
    const { stdout } = await here.world.coral("agent status");
    expect(stdout).toContain(`Agent: frontend-001
Status: ✅ Running (connected to colony)

Platform:
  OS:           Linux (Ubuntu 22.04)
  Architecture: amd64
  Kernel:       6.5.0-35-generic
`);
    expect(stdout).toContain("  Agent:        v2.1.0\n");
    expect(stdout).toContain(`
Runtime:
  Type:         Kubernetes Sidecar
  Mode:         CRI (recommended)
  CRI Socket:   /var/run/containerd/containerd.sock
  CRI Runtime:  containerd v1.7.0
  Detected:     2024-03-15 10:23:45 UTC

Capabilities:
  ✅ coral connect   Monitor containers in pod
  ✅ coral exec      Execute in target containers
  ✅ coral shell     Interactive shell in containers
  ❌ coral run       Not supported (sidecar is passive for launching)
`);
    expect(stdout).toContain(
      `
Visibility:
  Scope:            Pod only
  Namespace:        pod
  Target Containers: [app, nginx]
`,
    );
    expect(stdout).toContain(`
Colony:
  Connected:    ✅ Yes (now)
  Colony:       prod-us-east
  URL:          colony.company.internal:9090
  Mesh:`);
    expect(stdout).toContain(
      "\nStorage:\n  Path:         /var/lib/coral\n  DuckDB:       45.2 MiB (1,200,000 rows)\n  Retention:    oldest row ",
    );
  });

  it("shows why a passive sidecar cannot run commands, with the fix", async () => {
    const agent = await here.world.startAgent();
    agent.replies.set("GET /v1/status", () => agentStatusAnswer({ runtime: sampleSidecar("passive") }));
    const { stdout } = await here.world.coral("agent status");
    expect(stdout).toContain("  Mode:         Passive (no CRI socket, no shared namespace)\n  CRI Runtime:  ❌ Not available\n");
    expect(stdout).toContain(`  ❌ coral exec      Not supported (passive mode - no CRI socket, no shared namespace)
                     Fix: Mount CRI socket or enable shareProcessNamespace
`);
    expect(stdout).toContain("  Target Containers: (auto-discovered)\n");
    expect(stdout).toContain("Option 2: Enable shareProcessNamespace\n");
  });

  it("accepts a legacy agent without a runtime context", async () => {
    const agent = await here.world.startAgent();
    agent.replies.set("GET /v1/status", () => {
      const { runtime: _runtime, ...old } = agentStatusAnswer();
      return old;
    });
    const { code, stdout } = await here.world.coral("agent status");
    expect(code).toBe(0);
    expect(stdout).toContain("  Type:         unknown: the agent is older than this CLI\n");
  });
});

describe("coral agent list --verbose", () => {
  it("draws a frame for each agent", async () => {
    const agents = [
      listed("frontend-001", cri, { lastContactAgoMs: 2_000 }),
      listed("api-002", sampleSidecar("passive", { version: "2.1.0", detectedAt: "2024-03-15T08:15:22.000Z" }), {
        health: "degraded",
        lastContactAgoMs: 45_000,
      }),
      listed(
        "dev-local",
        sampleRuntime({
          platform: { os: "darwin", arch: "arm64", osVersion: "macOS 14.2", kernel: "Darwin 23.3.0" },
          containerRuntime: { socketPath: "/var/run/docker.sock", type: "docker", version: "25.0.3" },
          visibility: { allPids: false, allContainers: true, podScope: false, containers: [], namespace: "host", moreContainers: 0 },
        }),
      ),
    ];
    here.colony.tool("coral_list_agents", { total: 3, agents });
    const { stdout } = await here.world.coral("agent list --verbose");
    const [head, first = "", second = "", third = ""] = stdout.split("\n\n┌");
    expect(head).toMatch(/^3 agents connected to colony: \S+$/);
    const text = (box: string): string[] => box.split("\n").map((line) => line.replace(/^[┌│ ─]+|[│┐ ─]+$/g, ""));
    expect(text(first)).toEqual(
      expect.arrayContaining([
        "frontend-001",
        "Component:    frontend",
        "Status:       ✅ healthy (2s ago)",
        "Version:      v2.1.0",
        "Platform:     Linux (Ubuntu 22.04) amd64",
        "Kernel 6.5.0-35-generic",
        "Runtime:      Kubernetes Sidecar (CRI mode)",
        "CRI:          containerd v1.7.0",
        "Socket:       /var/run/containerd/containerd.sock",
        "Detected:     2024-03-15 10:23:45 UTC",
        "Capabilities:",
        "✅ connect  ✅ exec  ✅ shell  ❌ run",
        "Visibility:",
        "Scope:      Pod only",
        "Namespace:  pod",
        "Containers: [app, nginx]",
        "Mesh:         connected",
      ]),
    );
    expect(text(second)).toEqual(
      expect.arrayContaining([
        "Status:       ⚠️  degraded (45s ago)",
        "Runtime:      Kubernetes Sidecar (PASSIVE mode)",
        "CRI:          ❌ Not available",
        "Detected:     2024-03-15 08:15:22 UTC",
        "✅ connect  ❌ exec  ❌ shell  ❌ run",
        "Containers: (auto-discovered)",
        "⚠️  Limited functionality in passive mode",
        "To enable exec/shell, update pod spec:",
        "Option 1 (Recommended): Mount CRI socket",
        "- name: cri-sock",
        "Option 2: Enable shareProcessNamespace",
        "shareProcessNamespace: true",
      ]),
    );
    expect(text(third)).toEqual(
      expect.arrayContaining([
        "Platform:     macOS 14.2 arm64",
        "Kernel Darwin 23.3.0",
        "Runtime:      Native (forced container mode)",
        "CRI:          Docker v25.0.3",
        "Socket:       /var/run/docker.sock",
        "✅ connect  ✅ exec  ✅ shell  ✅ run",
        "(run forced to container mode on macOS)",
        "Scope:      Host (user processes only)",
        "Namespace:  host",
        "Containers: All (via Docker)",
      ]),
    );
    const widths = new Set(
      stdout
        .split("\n")
        .filter((line) => /^[┌│└]/.test(line))
        .map(textWidth),
    );
    expect(widths.size).toBe(1);
  });

  it("keeps its frames within the terminal, and shows an old agent as unknown", async () => {
    here.colony.tool("coral_list_agents", { total: 1, agents: [listed("old-1", null, { isLegacy: true, protocolVersion: 1 })] });
    const { stdout } = await here.world.coral("agent list --verbose", { terminal: 50, env: { NO_COLOR: "1" } });
    expect(stdout).toContain("unknown (legacy agent");
    for (const line of stdout.split("\n")) expect(textWidth(line)).toBeLessThanOrEqual(50);
  });

  it("passes filters on", async () => {
    here.colony.tool("coral_list_agents", { total: 0, agents: [] });
    const { stderr } = await here.world.coral("agent list --runtime k8s-sidecar --mode passive --capability connect");
    expect(here.colony.calls[0]?.body).toEqual({
      verbose: false,
      limit: 1_000,
      runtime: "k8s-sidecar",
      mode: "passive",
      capability: "connect",
    });
    expect(stderr).toContain("No agent matches");
    expect((await here.world.coral("agent list --runtime vm")).code).toBe(64);
  });
});

describe("coral colony status", () => {
  const host = (
    agentId: string,
    runtimeType: string,
    mode: string,
    lastContactAgoMs: number,
    health: "healthy" | "degraded" = "healthy",
  ) => ({
    ...{
      agentId,
      hostname: agentId,
      component: agentId.replace(/-\d+$/, ""),
      health,
      runtimeType,
      mode,
      isLegacy: false,
      isSlow: false,
      lastContactAgoMs,
    },
    ...{
      sampledAt: null,
      cpuBusyRatio: null,
      cpuBusyMinuteRatio: null,
      cpuCount: null,
      memUsedRatio: null,
      memTotalBytes: null,
      load1m: null,
    },
  });

  it("shows the agents in a table, how they are distributed, and what to do", async () => {
    here.colony.tool(
      "coral_get_status",
      statusAnswer({
        agents: { total: 4, healthy: 3, degraded: 1, unhealthy: 0, connected: 3 },
        hosts: [
          host("frontend-001", "k8s-sidecar", "CRI", 2_000),
          host("api-002", "k8s-sidecar", "Passive", 45_000, "degraded"),
          host("worker-001", "k8s-daemonset", "-", 1_000),
          host("cache-001", "docker", "Host NS", 2_000),
        ],
        runtimes: {
          platforms: [
            {
              name: "Linux",
              agents: 3,
              versions: [
                { name: "Ubuntu", agents: 2 },
                { name: "Alpine Linux", agents: 1 },
              ],
            },
            { name: "macOS", agents: 1, versions: [{ name: "macOS", agents: 1 }] },
          ],
          types: [
            {
              name: "K8s Sidecar",
              agents: 2,
              modes: [
                { name: "CRI", agents: 1 },
                { name: "Passive", agents: 1 },
              ],
            },
            { name: "K8s DaemonSet", agents: 1, modes: [] },
            { name: "Container", agents: 1, modes: [{ name: "Host NS", agents: 1 }] },
          ],
          capabilities: [
            { name: "connect", agents: 4, of: 4 },
            { name: "exec", agents: 3, of: 4 },
          ],
          legacy: { agents: 0, percent: 0, phase: "grace", rejectAfter: null, upgradeSteps: [], listed: [] },
        },
        warnings: [
          {
            kind: "passive-sidecar",
            agentId: "api-002",
            message: "api-002 in passive mode (no exec/shell support)",
            fix: "Mount CRI socket or enable shareProcessNamespace",
          },
        ],
      }),
    );
    const { stdout } = await here.world.coral("colony status");
    expect(stdout).toContain(`Colony: shop-dev-1a2b3c
Status: ✅ Running
Uptime: 1h 2m
Agents: 3 of 4 connected (3 healthy, 1 degraded)

Environment: dev (shop)
`);
    expect(stdout).toContain(`
Agents:
┌──────────────┬───────────┬────────┬───────────────┬─────────┬───────────┐
│ AGENT ID     │ COMPONENT │ STATUS │ RUNTIME       │ MODE    │ LAST SEEN │
├──────────────┼───────────┼────────┼───────────────┼─────────┼───────────┤
│ api-002      │ api       │ ⚠️     │ K8s Sidecar   │ Passive │ 45s ago   │
│ cache-001    │ cache     │ ✅     │ Container     │ Host NS │ 2s ago    │
│ frontend-001 │ frontend  │ ✅     │ K8s Sidecar   │ CRI     │ 2s ago    │
│ worker-001   │ worker    │ ✅     │ K8s DaemonSet │ -       │ 1s ago    │
└──────────────┴───────────┴────────┴───────────────┴─────────┴───────────┘

Platform Distribution:
  Linux: 3 agents (Ubuntu: 2, Alpine Linux: 1)
  macOS: 1 agent  (forced container mode)

Runtime Distribution:
  K8s Sidecar:   2 agents (CRI: 1, Passive: 1)
  K8s DaemonSet: 1 agent
  Container:     1 agent  (Host NS: 1)

Capability Coverage:
  exec:    75% (3/4 agents)
  connect: 100% (4/4 agents)

⚠️  Warning: api-002 in passive mode (no exec/shell support)
    Fix: Mount CRI socket or enable shareProcessNamespace
    See: coral agent list api-002 --verbose
`);
  });

  it("shows how and until when to upgrade legacy agents", async () => {
    const steps = ["Update coral", "Restart the agent", "Verify"];
    here.colony.tool(
      "coral_get_status",
      statusAnswer({
        runtimes: {
          ...statusAnswer().runtimes,
          legacy: {
            agents: 15,
            percent: 18.75,
            phase: "transition",
            rejectAfter: "2024-09-01",
            upgradeSteps: steps,
            listed: Array.from({ length: 15 }, (_, index) => ({ agentId: `api-${index}`, version: "1.9.0" })),
          },
        },
        warnings: [
          {
            kind: "legacy-agents",
            message: "15 legacy agents detected (18.75%); they will be rejected after 2024-09-01",
            fix: steps.join("; "),
          },
        ],
      }),
    );
    const { stdout } = await here.world.coral("colony status");
    expect(stdout).toContain(`
⚠️  15 legacy agents detected (18.75%)
    These agents will be rejected after 2024-09-01

    Upgrade instructions:
      1. Update coral
      2. Restart the agent
      3. Verify

    Legacy agents:
      - api-0 (v1.9.0)
`);
    expect(stdout).toContain("      ...\n");
  });
});

describe("coral agent refresh-context", () => {
  it("shows what the agent detected, and what changed", async () => {
    const agent = await here.world.startAgent();
    agent.replies.set("POST /v1/runtime/refresh", () => ({ runtime: cri, changes: ["sidecar mode passive → cri"], isTold: true }));
    const { code, stdout } = await here.world.coral("agent refresh-context");
    expect(code).toBe(0);
    expect(stdout).toContain(
      "Runtime:      Kubernetes Sidecar (CRI mode)\nCRI:          containerd v1.7.0 at /var/run/containerd/containerd.sock\n",
    );
    expect(stdout).toContain("Changed:\n  sidecar mode passive → cri\nReported to the colony.\n");
    agent.replies.set("POST /v1/runtime/refresh", () => ({ runtime: cri, changes: [], isTold: true }));
    expect((await here.world.coral("agent refresh-context")).stdout).toContain("No changes.\n");
    expect(JSON.parse((await here.world.coral("agent refresh-context -o json")).stdout)).toMatchObject({ changes: [] });
  });
});
