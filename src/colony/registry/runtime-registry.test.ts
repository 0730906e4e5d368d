import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Clock } from "../../base/clock.ts";
import { silentLogger } from "../../base/log.ts";
import { possibleCapabilities, sampleRuntime, sampleSidecar } from "../../model/runtime-facts.fixture.ts";
import { type ColonyStore, listRuntimeHistory, openColonyStore } from "../../store/colony/index.ts";
import { openEngine } from "../../store/engine/index.ts";
import { RuntimeRegistry } from "./runtime-registry.ts";

class HandClock implements Clock {
  nowMs = 1_000_000;
  wallMs(): number {
    return 1_700_000_000_000 + this.nowMs;
  }
  monotonicMs(): number {
    return this.nowMs;
  }
}

async function openWorld(clock: Clock): Promise<AsyncDisposable & { store: ColonyStore; open: () => Promise<RuntimeRegistry> }> {
  const directory = mkdtempSync(join(tmpdir(), "coral-runtimes-"));
  const engine = await openEngine({ dataDirectories: [directory], memoryLimitBytes: 128 * 1024 ** 2, threads: 1, log: silentLogger });
  const store = await openColonyStore(engine, {
    file: join(directory, "c.duckdb"),
    signals: [],
    maxBytes: 1024 ** 3,
    log: silentLogger,
    clock,
  });
  return {
    store,
    open: () => RuntimeRegistry.open({ store, clock, log: silentLogger }),
    [Symbol.asyncDispose]: async () => {
      await store.close();
      await engine.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

test("update() writes a change at once, then at most once a minute, and keeps the last one", async () => {
  const clock = new HandClock();
  await using world = await openWorld(clock);
  const runtimes = await world.open();
  await runtimes.update("a", sampleSidecar("passive"), "");
  for (let round = 0; round < 10; round++) {
    clock.nowMs += 1_000;
    await runtimes.update("a", sampleSidecar(round % 2 ? "shared-ns" : "cri"), "refresh");
    // Reads return the newest at once.
    expect(runtimes.of("a")?.facts.sidecarMode).toBe(round % 2 ? "shared-ns" : "cri");
  }
  expect(await listRuntimeHistory(world.store, "a", 100)).toHaveLength(1);
  await runtimes.flush();
  expect(await listRuntimeHistory(world.store, "a", 100)).toHaveLength(1);
  clock.nowMs += 60_000;
  await runtimes.flush();
  await runtimes.flush();
  const history = await listRuntimeHistory(world.store, "a", 100);
  expect(history.map(({ sidecarMode, reason }) => [sidecarMode, reason])).toEqual([
    ["shared-ns", "refresh"],
    ["passive", "registration"],
  ]);
  expect(history[0]?.changes).toContain("sidecar mode passive → shared-ns");
  expect(runtimes.deferred).toBe(10);
});

test("update() writes nothing when only the detection time changed, even after a restart", async () => {
  const clock = new HandClock();
  await using world = await openWorld(clock);
  const first = await world.open();
  await first.update("a", sampleRuntime(), "");
  clock.nowMs += 3_600_000;
  const second = await world.open();
  expect(second.of("a")?.facts).toEqual(sampleRuntime());
  await second.update("a", sampleRuntime({ detectedAt: "2025-01-01T00:00:00.000Z" }), "");
  expect(await listRuntimeHistory(world.store, "a", 100)).toHaveLength(1);
  expect(second.of("a")?.facts.detectedAt).toBe("2025-01-01T00:00:00.000Z");
});

test("update() records the reason of a change", async () => {
  const clock = new HandClock();
  await using world = await openWorld(clock);
  const runtimes = await world.open();
  const cri = sampleSidecar("cri");
  const steps: [Parameters<RuntimeRegistry["update"]>[1], string, string][] = [
    [cri, "", "registration"],
    [{ ...cri, version: "0.2.0" }, "", "upgrade"],
    [{ ...cri, version: "0.2.0", containerRuntime: { socketPath: "/s", type: "containerd", version: "1.7.1" } }, "refresh", "upgrade"],
    [{ ...sampleSidecar("passive"), version: "0.2.0" }, "", "redeployment"],
    [{ ...sampleSidecar("shared-ns"), version: "0.2.0" }, "requested", "requested"],
  ];
  for (const [facts, agentReason, reason] of steps) {
    clock.nowMs += 60_000;
    await runtimes.update("a", facts, agentReason);
    expect((await listRuntimeHistory(world.store, "a", 1))[0]?.reason).toBe(reason);
  }
});

test("update() rejects impossible claims and reports them once", async () => {
  const clock = new HandClock();
  await using world = await openWorld(clock);
  const runtimes = await world.open();
  const lie = sampleSidecar("passive", { capabilities: possibleCapabilities("native", "") });
  await runtimes.update("a", lie, "");
  await runtimes.update("a", lie, "");
  expect(runtimes.of("a")?.problems).toHaveLength(3);
  expect(runtimes.of("a")?.facts.capabilities.find(({ name }) => name === "exec")?.available).toBe(false);
  const events = await world.store.query("SELECT kind FROM registry.events WHERE agent_id = 'a'");
  expect(events.map(({ kind }) => kind)).toEqual(["agent-runtime-doubtful"]);
});

test("a change that removes capabilities is a warning event", async () => {
  const clock = new HandClock();
  await using world = await openWorld(clock);
  const runtimes = await world.open();
  for (const mode of ["cri", "passive", "cri"]) {
    await runtimes.update("a", sampleSidecar(mode), "refresh");
    clock.nowMs += 60_000;
  }
  const events = await world.store.query(`SELECT severity, message FROM ${world.store.database.name}.views.events ORDER BY "time"`);
  expect(events.map(({ severity, message }) => [severity, String(message).includes("exec yes → no")])).toEqual([
    ["warning", true],
    ["info", false],
  ]);
});

test("update() forgets an agent that stopped reporting", async () => {
  const clock = new HandClock();
  await using world = await openWorld(clock);
  const runtimes = await world.open();
  await runtimes.update("b", sampleSidecar("cri"), "");
  await runtimes.update("b", null, "");
  expect(runtimes.of("b")).toBeNull();
  expect((await world.open()).of("b")).toBeNull();
});
