/** Agents and colonies of different versions. test/support/contract-v1 is the frozen contract of the first version. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Client, createClient } from "@connectrpc/connect";
import { describe, expect, it } from "vitest";
import { ColonyLink, type ColonyLinkOptions } from "../../src/agent/link/colony-link.ts";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/log.ts";
import type { ColonyConfig } from "../../src/config/index.ts";
import { sampleRuntime, sampleSidecar } from "../../src/model/runtime-facts.fixture.ts";
import type { RuntimeFacts } from "../../src/model/runtime-facts.ts";
import { AgentService } from "../../src/proto/coral/agent/v1/agent_pb.ts";
import type { AgentList, ColonyStatus, RuntimeContextList } from "../../src/tools/index.ts";
import { issueIdentity, startTestColony } from "../../src/transport/colony.fixture.ts";
import {
  type DialledTunnel,
  dialTunnel,
  fromConnectError,
  type Identity,
  registerAgent,
  runtimeToWire,
  saveIdentity,
} from "../../src/transport/index.ts";
import { dialTls } from "../../src/transport/trust/dial-tls.ts";
import { createClientSession, createSessionTransport } from "../../src/transport/tunnel/session-transport.ts";
import { AgentService as OldAgentService } from "../support/contract-v1/agent_pb.ts";
import { ColonyService as OldColonyService, type RegisterRequest as OldRegisterRequest } from "../support/contract-v1/colony_pb.ts";
import { InProcessColony, registration } from "../support/in-process-colony.ts";
import { validPullReply } from "../support/pull-replies.ts";
import { waitFor } from "../support/wait-for.ts";

const signal = new AbortController().signal;
const host = { hostname: "old", machineId: "m", bootId: "b", os: "Linux", kernel: "0", arch: "x64" };

/** A call by an agent of the first version. */
async function callAsOld<T>(
  endpoint: string,
  identity: Identity,
  call: (client: Client<typeof OldColonyService>) => Promise<T>,
): Promise<T> {
  const trust = { kind: "authority" as const, caPem: identity.caPem, colonyId: identity.colonyId };
  const session = createClientSession(
    await dialTls({ endpoint, trust, clientCertificate: identity, alpn: "h2", timeoutMs: 20_000, signal }),
  );
  try {
    const transport = createSessionTransport(session, { maxReplyBytes: 1_000_000, closedReason: () => "lost" });
    return await call(createClient(OldColonyService, transport));
  } catch (error) {
    throw fromConnectError(error);
  } finally {
    session.destroy();
  }
}

async function connectOld(
  colony: InProcessColony,
  identity: Identity,
): Promise<AsyncDisposable & { tunnel: DialledTunnel; pulls: () => number }> {
  const { endpoint } = colony.colony;
  const { agentId, colonyId } = identity;
  const registered = await callAsOld(endpoint, identity, (client) =>
    client.register({
      colonyId,
      agentId,
      protocolVersion: 1,
      version: "0.0.9",
      host,
      epoch: "e",
      labels: {},
      capabilities: [],
      wallMs: BigInt(Date.now()),
    }),
  );
  let pulls = 0;
  const tunnel = await dialTunnel({
    endpoint,
    identity,
    colonyId,
    signal,
    log: silentLogger,
    routes: (router) => {
      router.service(OldAgentService, {
        hello: () => ({ agentId, sessionId: registered.sessionId }),
        pull: (request) => {
          pulls++;
          return validPullReply(request as Parameters<typeof validPullReply>[0], "e") as never;
        },
      });
    },
  });
  return { tunnel, pulls: () => pulls, [Symbol.asyncDispose]: () => tunnel.close("the test is over") };
}

const legacy = (warnAfterMs: number | null, rejectAfterMs: number | null) => (config: ColonyConfig) => ({
  ...config,
  registry: { ...config.registry, legacy: { isEnabled: true, warnAfterMs, rejectAfterMs } },
});
const dayMs = 86_400_000;

describe("an agent of the first version at this colony", () => {
  it("registers, is pulled, and is shown as legacy with all capabilities assumed", async () => {
    await using colony = await InProcessColony.start();
    await using old = await connectOld(colony, await colony.join("old-1"));
    await waitFor("pulls", () => old.pulls() > 2);
    const { agents } = await colony.tool<AgentList>("coral_list_agents", { verbose: true });
    expect(agents).toMatchObject([{ agentId: "old-1", isLegacy: true, connected: true, details: { runtime: null, protocolVersion: 1 } }]);
    expect((await colony.tool<AgentList>("coral_list_agents", { capability: "shell" })).total).toBe(1);
    expect((await colony.tool<AgentList>("coral_list_agents", { runtime: "unknown" })).total).toBe(1);
    const context = await colony.tool<RuntimeContextList>("coral_get_runtime_context", { agent: "old-1" });
    expect(context.agents).toMatchObject([{ runtime: null, source: "registry", note: "the agent's version is too old for this query" }]);
    const label = `{colony="${colony.colonyId}"}`;
    expect(await colony.metric(`coral_agents_total${label}`)).toBe(1);
    expect(await colony.metric(`coral_agents_legacy_total${label}`)).toBe(1);
    expect(await colony.metric(`coral_agents_legacy_pct${label}`)).toBe(100);
    expect(colony.logs.filter(({ level, message }) => level === "warn" && message.includes("legacy agent"))).toHaveLength(1);
  });

  it("causes a warning with instructions while an end date is set", async () => {
    await using colony = await InProcessColony.start({ configure: legacy(Date.now() - dayMs, Date.now() + dayMs) });
    await using _old = await connectOld(colony, await colony.join("old-1"));
    expect(colony.logs.filter(({ level, message }) => level === "error" && message.includes("will be refused from"))).toHaveLength(1);
    const { warnings, runtimes } = await colony.tool<ColonyStatus>("coral_get_status");
    expect(warnings.find(({ kind }) => kind === "legacy-agents")?.message).toMatch(
      /^1 legacy agent detected \(100%\); they will be rejected after \d{4}-/,
    );
    expect(runtimes.legacy).toMatchObject({
      agents: 1,
      percent: 100,
      phase: "transition",
      listed: [{ agentId: "old-1", version: "0.0.9" }],
    });
    expect(runtimes.legacy.upgradeSteps).toHaveLength(3);
  });

  it("is refused after the end date, while connected ones stay", async () => {
    const start = legacy(null, null);
    let base: ColonyConfig | undefined;
    await using colony = await InProcessColony.start({
      configure: (config) => {
        base = config;
        return start(config);
      },
    });
    const identity = await colony.join("old-1");
    await using old = await connectOld(colony, identity);
    await waitFor("pulls", () => old.pulls() > 1);
    colony.colony.reload(legacy(null, Date.now() - 1_000)(base as ColonyConfig));
    const before = old.pulls();
    await waitFor("further pulls", () => old.pulls() > before + 2);
    const again = connectOld(colony, identity);
    await expect(again).rejects.toMatchObject({
      code: "not-permitted",
      message: expect.stringContaining("Agent registration rejected\n\nAgent: old-1\nVersion: v0.0.9 (legacy)"),
    });
    await expect(connectOld(colony, await colony.join("old-2"))).rejects.toThrow("Minimum required version");
    const now = registration(identity, "e2", { protocolVersion: 2, host });
    await old.tunnel.close("upgraded");
    await waitFor("the new version to be accepted", async () =>
      registerAgent({ endpoint: colony.colony.endpoint, identity, request: now, signal }).then(
        () => true,
        () => false,
      ),
    );
  });
});

interface LinkWorld extends AsyncDisposable {
  link: ColonyLink;
  runtime: { facts: RuntimeFacts; isBusy: boolean };
}

/** This version's link with a runtime context that tests change. */
async function openLink(endpoint: string, identity: Identity): Promise<LinkWorld> {
  const directory = mkdtempSync(join(tmpdir(), "coral-link-"));
  await saveIdentity(directory, identity);
  const runtime = { facts: sampleRuntime(), isBusy: false };
  const stopped = new AbortController();
  const options: ColonyLinkOptions = {
    agentId: identity.agentId,
    identityDirectory: directory,
    colonyId: identity.colonyId,
    endpoint,
    locateColony: () => Promise.resolve(undefined),
    obtainToken: () => Promise.resolve(undefined),
    describe: () => ({
      protocolVersion: 2,
      version: "0.1.0",
      host,
      epoch: "e",
      labels: {},
      capabilities: [],
      wallMs: BigInt(Date.now()),
      runtimeContext: runtimeToWire(runtime.facts),
    }),
    routes: (router, sessionId) =>
      router.service(AgentService, {
        hello: () => ({ agentId: identity.agentId, sessionId }),
        pull: (request) => validPullReply(request, "e"),
        getRuntimeContext: () => ({ context: runtimeToWire(runtime.facts) }),
      }),
    isBusy: () => runtime.isBusy,
    endpointFile: { read: () => Promise.resolve(undefined), write: () => Promise.resolve() },
    clock: systemClock,
    log: silentLogger,
  };
  const link = new ColonyLink(options);
  const running = link.run(stopped.signal);
  await waitFor("the link", () => link.state.kind === "connected");
  return {
    link,
    runtime,
    [Symbol.asyncDispose]: async () => {
      stopped.abort();
      await running;
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

describe("this agent at a colony of the first version", () => {
  it("registers with fields unknown to that colony, and reports a change by reconnecting when no command runs", async () => {
    const requests: OldRegisterRequest[] = [];
    await using colony = await startTestColony({
      routes: (router) =>
        router.service(OldColonyService, {
          register: (request) => {
            requests.push(request);
            return { sessionId: `s-${requests.length}`, colonyName: "old", environment: "dev", protocolVersion: 1, pullIntervalMs: 5_000n };
          },
        }),
    });
    await using world = await openLink(colony.endpoint, await issueIdentity(colony.authority, "new-1"));
    expect(requests).toMatchObject([{ agentId: "new-1", version: "0.1.0", host: { hostname: "old" } }]);
    // The colony received the runtime context and ignored it.
    expect(requests[0]?.$unknown?.map(({ no }) => no)).toEqual([11]);
    const first = await colony.nextTunnel();
    world.runtime.isBusy = true;
    expect(await world.link.reregister("refresh", signal)).toBe(false);
    expect(requests).toHaveLength(1);
    world.runtime.isBusy = false;
    expect(await world.link.reregister("refresh", signal)).toBe(true);
    await colony.nextTunnel();
    expect(requests).toHaveLength(2);
    await first.closed;
  });
});

describe("this agent at this colony", () => {
  it("reports its runtime context, and a change of it without reconnecting", async () => {
    await using colony = await InProcessColony.start();
    await using world = await openLink(colony.colony.endpoint, await colony.join("new-1"));
    const since = world.link.state.sinceMs;
    world.runtime.facts = sampleSidecar("passive");
    expect(await world.link.reregister("requested", signal)).toBe(true);
    world.runtime.facts = sampleSidecar("cri");
    expect(await world.link.reregister("refresh", signal)).toBe(true);
    const { agents } = await colony.tool<AgentList>("coral_list_agents", { runtime: "k8s-sidecar", mode: "cri", capability: "exec" });
    expect(agents).toMatchObject([{ agentId: "new-1", runtimeType: "k8s-sidecar", mode: "CRI", isLegacy: false, connected: true }]);
    expect(world.link.state).toMatchObject({ kind: "connected", sinceMs: since });
    const context = await colony.tool<RuntimeContextList>("coral_get_runtime_context", { agent: "new-1", history: 10 });
    expect(context.agents).toMatchObject([{ source: "agent", note: "", runtime: sampleSidecar("cri"), problems: [] }]);
    // The second change within a minute is stored later.
    expect(context.agents[0]?.history.map(({ reason }) => reason)).toEqual(["registration"]);
    expect(await colony.sql("SELECT change_reason FROM agent_runtime_history")).toEqual([{ change_reason: "registration" }]);
  });

  it("flags an agent that claims capabilities its runtime does not have", async () => {
    await using colony = await InProcessColony.start();
    await using world = await openLink(colony.colony.endpoint, await colony.join("liar-1"));
    world.runtime.facts = { ...sampleSidecar("passive"), capabilities: sampleRuntime().capabilities };
    await world.link.reregister("refresh", signal);
    const { warnings } = await colony.tool<ColonyStatus>("coral_get_status");
    expect(warnings.map(({ kind }) => kind)).toEqual(expect.arrayContaining(["passive-sidecar", "runtime-doubtful"]));
    expect((await colony.tool<AgentList>("coral_list_agents", { capability: "exec" })).total).toBe(0);
    expect(colony.logs.filter(({ level, message }) => level === "warn" && message.includes("claims exec"))).toHaveLength(1);
  });

  it("can renew only its own session", async () => {
    await using colony = await InProcessColony.start();
    const identity = await colony.join("new-1");
    await using _world = await openLink(colony.colony.endpoint, identity);
    const request = { ...registration(identity, "e", { protocolVersion: 2, host }), sessionId: "made-up" };
    const stolen = registerAgent({ endpoint: colony.colony.endpoint, identity, request, signal });
    await expect(stolen).rejects.toMatchObject({ code: "not-found" });
  });
});
