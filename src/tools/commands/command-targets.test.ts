import { expect, test } from "vitest";
import type { CoralError } from "../../base/errors.ts";
import { sampleRuntime, sampleSidecar } from "../../model/runtime-facts.fixture.ts";
import { agentOf, colonyOf, context, serviceOf } from "../sample-colony.fixture.ts";
import type { CommandKind, CommandOutcome, CommandRefusal, CommandRequest, TargetSelector } from "../schemas/command.ts";
import { agentExec } from "./agent-exec.ts";
import { resolveTargets, usableTargets } from "./command-targets.ts";
import { resolveTargetsTool } from "./resolve-targets.ts";

const passive = sampleSidecar("passive");
const fleet = [
  agentOf("api-001", { runtime: sampleSidecar("cri"), hostname: "api-001", labels: { zone: "eu" } }),
  agentOf("api-002", { runtime: passive, hostname: "api-002", labels: { zone: "us" } }),
  agentOf("api-003", { runtime: sampleSidecar("shared-ns"), hostname: "api-003", labels: { zone: "eu", env: "staging" } }),
  agentOf("worker-001", { runtime: sampleRuntime({ runtimeType: "k8s-daemonset" }), hostname: "worker-001" }),
  agentOf("dev-local", { runtime: sampleRuntime(), hostname: "dev-local", connected: false, lastContactAgoMs: 65_000 }),
  agentOf("old-001", { hostname: "old-001", isLegacy: true, protocolVersion: 1 }),
  agentOf("gone-001", { hostname: "gone-001", revoked: true }),
];
const backend = colonyOf({
  agents: async () => fleet,
  services: async ({ service }) =>
    [
      serviceOf("api-001", "api", 80),
      serviceOf("api-002", "api", 80),
      serviceOf("api-003", "api", 80),
      serviceOf("worker-001", "api", 80, { status: "stale" }),
      serviceOf("api-002", "lonely", 81),
    ].filter((place) => service === undefined || place.service === service),
});

async function targets(command: CommandKind, selector: TargetSelector): Promise<[string[], string[]]> {
  const resolved = await resolveTargets(backend, command, selector, context);
  const names = (isUsable: boolean): string[] =>
    resolved.agents.filter((agent) => (agent.reason === "") === isUsable).map((agent) => agent.agentId);
  return [names(true), names(false)];
}

async function problemOf(command: CommandKind, selector: TargetSelector): Promise<CoralError> {
  try {
    usableTargets(await resolveTargets(backend, command, selector, context), selector);
  } catch (error) {
    return error as CoralError;
  }
  throw new Error("there are targets");
}

test.each<[string, CommandKind, TargetSelector, string[], string[]]>([
  ["a service without the passive and the stale", "shell", { service: "api" }, ["api-001", "api-003"], ["api-002"]],
  ["an agent by name", "exec", { agents: ["api-001", "worker-001"] }, ["api-001", "worker-001"], []],
  ["a label", "exec", { labels: { zone: "eu" } }, ["api-001", "api-003"], []],
  ["a service and a label", "exec", { service: "api", labels: { zone: "us" } }, [], ["api-002"]],
  ["an environment by the agent's own label", "exec", { environment: "staging" }, ["api-003"], []],
  ["an environment by the colony's", "exec", { environment: "prod" }, ["api-001", "old-001", "worker-001"], ["dev-local", "api-002"]],
  ["all but the revoked", "exec", { all: true }, ["api-001", "api-003", "old-001", "worker-001"], ["dev-local", "api-002"]],
  [
    "run, of which only a legacy agent is not known to be unable",
    "run",
    { all: true },
    ["old-001"],
    ["dev-local", "api-001", "api-002", "api-003", "worker-001"],
  ],
])("resolveTargets() finds %s", async (_name, command, selector, usable, left) => {
  expect(await targets(command, selector)).toEqual([usable, left]);
});

test("resolveTargets() reports why an agent is skipped, with the fix", async () => {
  const { agents, target, total, usable } = await resolveTargets(backend, "shell", { all: true }, context);
  expect({ target, total, usable }).toEqual({ target: "all", total: 6, usable: 4 });
  expect(agents.find((agent) => agent.agentId === "api-002")).toEqual({
    agentId: "api-002",
    hostname: "api-002",
    supported: false,
    connected: true,
    runtime: "Kubernetes Sidecar (Passive mode)",
    reason: "passive mode - no CRI socket, no shared namespace",
    fix: "Mount CRI socket or enable shareProcessNamespace",
  });
  expect(agents.find((agent) => agent.agentId === "dev-local")).toMatchObject({
    supported: true,
    reason: "not connected, last reported 1m 5s ago",
  });
  expect(agents.find((agent) => agent.agentId === "old-001")).toMatchObject({ supported: true, runtime: "legacy agent", reason: "" });
});

test("usableTargets() distinguishes unsupported, disconnected and not found", async () => {
  const unable = await problemOf("shell", { service: "lonely" });
  expect(unable.code).toBe("unsupported");
  expect(unable.message).toBe(
    'Cannot shell at "service=lonely": not supported by any target agents (api-002: passive mode - no CRI socket, no shared namespace); Mount CRI socket or enable shareProcessNamespace',
  );
  expect(unable.details).toMatchObject({
    command: "shell",
    target: "service=lonely",
    total: 1,
    agents: [{ agentId: "api-002", supported: false }],
  });
  expect(await problemOf("exec", { agents: ["dev-local"] })).toMatchObject({ code: "unavailable" });
  expect(await problemOf("exec", { labels: { zone: "mars" } })).toMatchObject({ code: "not-found" });
  expect(await problemOf("exec", { agents: ["nobody"] })).toMatchObject({ code: "not-found" });
  expect(await problemOf("exec", { service: "nothing" })).toMatchObject({ code: "not-found" });
  expect(await problemOf("exec", {})).toMatchObject({ code: "usage" });
});

test("usableTargets() returns one agent for a terminal", async () => {
  const resolved = await resolveTargets(backend, "shell", { service: "api" }, context);
  expect(usableTargets(resolved, { one: true }).map((agent) => agent.agentId)).toEqual(["api-001"]);
});

test("resolveTargets() treats a capability that the agent does not know as missing", async () => {
  const runtime = { ...sampleRuntime(), capabilities: [] };
  const some = colonyOf({ agents: async () => [agentOf("a", { runtime })] });
  const { agents } = await resolveTargets(some, "exec", { all: true }, context);
  expect(agents).toMatchObject([{ supported: false, reason: "unknown to the agent", fix: "Update the agent" }]);
});

test("coral_resolve_targets succeeds even when no agent can run the command", async () => {
  const answer = await resolveTargetsTool.call(backend, { command: "shell", service: "lonely" }, context);
  expect(answer).toMatchObject({ usable: 0, total: 1, service: "lonely", completeness: { complete: true } });
});

const outcome = (more: Partial<CommandOutcome> = {}): CommandOutcome => ({
  agentId: "api-001",
  hostname: "api-001",
  reason: "exited",
  exitCode: 0,
  signal: "",
  problem: "",
  code: "",
  rule: "diagnostics",
  where: "host",
  user: "nobody",
  stdout: "ok\n",
  stderr: "",
  cutBytes: 0,
  durationMs: 3,
  ...more,
});

async function execWith(outcomes: CommandOutcome[], input: Record<string, unknown>) {
  const asked: CommandRequest[] = [];
  const colony = colonyOf({
    agents: async () => fleet,
    services: async () => [serviceOf("api-001", "api", 80), serviceOf("api-002", "api", 80)],
    execute: async (request) => {
      asked.push(request);
      return { commandId: "c", outcomes };
    },
  });
  const answer = await agentExec.call(colony, input, context);
  return { answer, asked: asked[0] };
}

test("coral_agent_exec is read-only by default, runs in the service, and notes which agents were skipped", async () => {
  const { answer, asked } = await execWith([outcome({ cutBytes: 7 })], { service: "api", command: "ps aux | head" });
  expect(asked).toEqual({
    text: "ps aux | head",
    agents: [{ agentId: "api-001", hostname: "api-001" }],
    where: { kind: "service", service: "api" },
    timeoutMs: 20_000,
    maxOutputBytes: 16_384,
    readOnly: true,
  });
  expect(answer["completeness"]).toMatchObject({
    notes: [
      { kind: "unavailable", message: "api-002 was skipped: passive mode - no CRI socket, no shared namespace" },
      { kind: "limit", message: expect.stringContaining("7 bytes") },
    ],
  });
  const other = await execWith([outcome()], { agents: ["api-001"], argv: ["df", "-h"], container: "web", readOnly: false });
  expect(other.asked).toMatchObject({ argv: ["df", "-h"], where: { kind: "container", container: "web" }, readOnly: false });
  const host = await execWith([outcome()], { service: "api", argv: ["df"], onHost: true });
  expect(host.asked).toMatchObject({ where: { kind: "host" } });
});

test("coral_agent_exec audits a command that no agent can run, with the reason", async () => {
  const refusals: CommandRefusal[] = [];
  const colony = colonyOf({
    agents: async () => fleet,
    refuseCommand: async (refusal) => {
      refusals.push(refusal);
    },
  });
  await expect(agentExec.call(colony, { agents: ["nowhere"], command: "rm x" }, context)).rejects.toMatchObject({ code: "not-found" });
  expect(refusals).toEqual([
    { text: "rm x", target: expect.stringContaining("nowhere"), reason: expect.stringContaining('Cannot find agent "nowhere"') },
  ]);
});

test("coral_agent_exec fails only when every agent refuses", async () => {
  const denied = outcome({ reason: "denied", exitCode: null, problem: 'Cannot run "rm": no rule allows it', code: "not-permitted" });
  const asked = { agents: ["api-001"], command: "rm x" };
  await expect(execWith([denied], asked)).rejects.toMatchObject({ code: "not-permitted", message: 'Cannot run "rm": no rule allows it' });
  await expect(execWith([outcome({ reason: "lost", code: "unavailable" })], asked)).rejects.toMatchObject({ code: "unavailable" });
  const { answer } = await execWith([denied, outcome()], asked);
  expect(answer["completeness"]).toMatchObject({ complete: false });
  await expect(execWith([], { agents: ["api-001"] })).rejects.toMatchObject({ code: "invalid" });
  await expect(execWith([], { agents: ["api-001"], command: "a", argv: ["b"] })).rejects.toMatchObject({ code: "invalid" });
});
