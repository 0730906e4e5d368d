import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { systemClock } from "../../base/clock.ts";
import { silentLogger } from "../../base/log.ts";
import { openColonyStore } from "../../store/colony/index.ts";
import { openEngine } from "../../store/engine/index.ts";
import type { Tunnel } from "../../transport/index.ts";
import { AgentRegistry, type RegistrationFacts } from "./agent-registry.ts";

const lateMs = 9_000;

function factsOf(agentId: string, bootId: string): RegistrationFacts {
  const host = { hostname: agentId, machineId: "m", bootId, os: "Debian", kernel: "6.12", arch: "x64" };
  const rest = { version: "1", protocolVersion: 2, epoch: `epoch-${agentId}`, labels: {}, capabilities: [] };
  // As if the process was busy between sending and handling the registration.
  return { agentId, ...host, ...rest, wallMs: systemClock.wallMs() - lateMs };
}

async function withRegistry(use: (registry: AgentRegistry) => Promise<void>): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "coral-registry-"));
  const engine = await openEngine({ dataDirectories: [directory], memoryLimitBytes: 128 * 1024 ** 2, threads: 1, log: silentLogger });
  const file = join(directory, "c.duckdb");
  const store = await openColonyStore(engine, { file, signals: [], maxBytes: 1024 ** 3, log: silentLogger, clock: systemClock });
  try {
    const registry = await AgentRegistry.open({
      store,
      revocations: { has: () => false, add: () => Promise.resolve() },
      bootId: "boot-1",
      clock: systemClock,
      thresholds: { degradedAfterMs: 45_000, unhealthyAfterMs: 120_000 },
      log: silentLogger,
      isAlive: () => Promise.resolve(true),
    });
    await use(registry);
  } finally {
    await store.close();
    await engine.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

test("an agent of the colony's own boot has the colony's clock, however late its registration is handled", () =>
  withRegistry(async (registry) => {
    const session = await registry.register(factsOf("here", "boot-1"));
    await registry.register(factsOf("there", "boot-2"));
    expect(registry.find("here")?.clockDifferenceMs).toBe(0);
    expect(registry.find("there")?.clockDifferenceMs).toBeLessThanOrEqual(-lateMs);
    await registry.register({ ...factsOf("here", "boot-1"), sessionId: session.id });
    expect(registry.find("here")?.clockDifferenceMs).toBe(0);
    expect([...registry.entries()]).toHaveLength(2);
  }));

test("an agent with a slow link, or that cannot store rows, is degraded until that ends", () =>
  withRegistry(async (registry) => {
    await registry.register(factsOf("here", "boot-1"));
    const health = (): string => {
      const entry = registry.find("here");
      return entry ? registry.healthOf(entry) : "unknown";
    };
    expect(health()).toBe("healthy");
    registry.storeProblem("here", "no space left");
    expect(health()).toBe("degraded");
    registry.storeProblem("here", "");
    expect(health()).toBe("healthy");
    const link = { pullMs: 900, pullBytes: 7_000, bytesPerSecond: 8_000 };
    registry.measured("here", { ...link, isSlow: true });
    expect(health()).toBe("degraded");
    registry.measured("here", { ...link, isSlow: false });
    expect(health()).toBe("healthy");
  }));

test("a connected agent triggers a pull by registering again for its services", () =>
  withRegistry(async (registry) => {
    const wanted: string[] = [];
    registry.onPullWanted = (agentId) => wanted.push(agentId);
    const facts = factsOf("here", "boot-1");
    const { id: sessionId } = await registry.register({ ...facts, changeReason: "services" });
    await registry.register({ ...facts, sessionId, changeReason: "refresh" });
    expect(wanted).toEqual([]);
    await registry.register({ ...facts, sessionId, changeReason: "services" });
    expect(wanted).toEqual(["here"]);
  }));

test("of two agents on one kernel only one counts requests; the other takes over when it leaves or its hooks are off", () =>
  withRegistry(async (registry) => {
    const capabilities = [{ name: "traffic", available: true, reason: "" }];
    const connect = async (agentId: string) => {
      const session = await registry.register({ ...factsOf(agentId, "boot-1"), capabilities, pidNamespace: 4026531836 });
      const tunnel = { agentId, certificateNotAfterMs: 0, close: () => Promise.resolve() } as unknown as Tunnel;
      registry.attach(session.id, tunnel);
      return { session, tunnel };
    };
    const counting = (): string[] =>
      ["a", "b"].filter((agentId) => registry.recorders.countedBy(agentId)?.(systemClock.wallMs() + 1) ?? true);
    const first = await connect("a");
    await connect("b");
    expect(counting()).toEqual(["a"]);
    registry.detach(first.session, first.tunnel);
    expect(counting()).toEqual(["b"]);
    const again = await connect("a");
    expect(counting()).toEqual(["a"]);
    await registry.register({ ...factsOf("a", "boot-1"), sessionId: again.session.id, capabilities: [] });
    expect(counting()).toEqual(["b"]);
  }));
