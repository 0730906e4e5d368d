import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { systemClock } from "../../base/clock.ts";
import { silentLogger } from "../../base/log.ts";
import { openColonyStore } from "../../store/colony/index.ts";
import { openEngine } from "../../store/engine/index.ts";
import { AgentRegistry, type RegistrationFacts } from "./agent-registry.ts";

const lateMs = 9_000;

function factsOf(agentId: string, bootId: string): RegistrationFacts {
  const host = { hostname: agentId, machineId: "m", bootId, os: "Debian", kernel: "6.12", arch: "x64" };
  const rest = { version: "1", protocolVersion: 2, epoch: `epoch-${agentId}`, labels: {}, capabilities: [] };
  // As when the process was busy between making a registration and handling it.
  return { agentId, ...host, ...rest, wallMs: systemClock.wallMs() - lateMs };
}

test("an agent of the colony's own boot has the colony's clock, however late its registration is handled", async () => {
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
    const session = await registry.register(factsOf("here", "boot-1"));
    await registry.register(factsOf("there", "boot-2"));
    expect(registry.find("here")?.clockDifferenceMs).toBe(0);
    expect(registry.find("there")?.clockDifferenceMs).toBeLessThanOrEqual(-lateMs);
    await registry.register({ ...factsOf("here", "boot-1"), sessionId: session.id });
    expect(registry.find("here")?.clockDifferenceMs).toBe(0);
    expect([...registry.entries()]).toHaveLength(2);
  } finally {
    await store.close();
    await engine.close();
    rmSync(directory, { recursive: true, force: true });
  }
});
