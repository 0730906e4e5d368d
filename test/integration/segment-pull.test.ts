/** Segments from an agent's store to a colony's, over the real service definitions. */

import { mkdirSync, readFileSync } from "node:fs";
import { Code, ConnectError, type ConnectRouter, createRouterTransport } from "@connectrpc/connect";
import { describe, expect, it } from "vitest";
import { addAgentService } from "../../src/agent/link/agent-service.ts";
import { systemClock } from "../../src/base/clock.ts";
import { CoralError } from "../../src/base/errors.ts";
import { silentLogger } from "../../src/base/log.ts";
import { createColonyMetrics } from "../../src/colony/core/colony-metrics.ts";
import { SegmentPuller } from "../../src/colony/pull/segment-puller.ts";
import { AgentService } from "../../src/proto/coral/agent/v1/agent_pb.ts";
import { type AgentStore, openAgentStore } from "../../src/store/agent/index.ts";
import { type ColonyStore, openColonyStore } from "../../src/store/colony/index.ts";
import { type AgentSegments, type ColonySegments } from "../../src/store/segments/index.ts";
import { sealTicks, tick, tickBody, tickRows } from "../../src/store/segments/segment.fixture.ts";
import { temporaryFolder, testEngine } from "../../src/store/store.fixture.ts";
import { coralErrorsOnWire } from "../../src/transport/http/rpc-errors.ts";
import type { Tunnel } from "../../src/transport/index.ts";

const mebibyte = 1024 ** 2;

interface Ends extends AsyncDisposable {
  agent: AgentStore;
  sent: AgentSegments;
  colony: ColonyStore;
  kept: ColonySegments;
}

async function openEnds(path: string): Promise<Ends> {
  const engine = await testEngine(path);
  mkdirSync(`${path}/colony`);
  const common = { signals: [], maxBytes: 64 * mebibyte, clock: systemClock, log: silentLogger };
  const segments = {
    signals: [{ ...tick, retention: { agent: { maxAgeMs: 1e15, weight: 1 }, colony: { maxAgeMs: 1e15, weight: 1 } } }],
    maxBytes: 64 * mebibyte,
  };
  const agent = await openAgentStore(engine, {
    ...common,
    file: `${path}/agent.duckdb`,
    segments: { ...segments, directory: path, seal: sealTicks },
  });
  const colony = await openColonyStore(engine, {
    ...common,
    file: `${path}/colony/colony.duckdb`,
    segments: { ...segments, directory: `${path}/colony` },
  });
  return {
    agent,
    sent: agent.segments as AgentSegments,
    colony,
    kept: colony.segments as ColonySegments,
    [Symbol.asyncDispose]: async () => {
      await agent.close();
      await colony.close();
      await engine.close();
    },
  };
}

/** Runs a puller against a service until `isDone`. */
async function pullUntil(
  ends: Ends,
  routes: (router: ConnectRouter) => void,
  isDone: () => boolean | Promise<boolean>,
  readFile?: Tunnel["readFile"],
  commit: ColonySegments["commit"] = (pull) => ends.kept.commit(pull),
): Promise<void> {
  const transport = createRouterTransport(routes, { router: { interceptors: [coralErrorsOnWire] } });
  const tunnel = { agentId: "a1", transport, ...(readFile && { readFile }) };
  const metrics = createColonyMetrics({ agentsByHealth: () => ({}), storeBytes: () => Promise.resolve(0) });
  const settings = () => ({ intervalMs: 20, timeoutMs: 30_000 });
  const segments = {
    checkpoints: (agentId: string, epoch: string) => ends.kept.checkpoints(agentId, epoch),
    receive: (...offered: Parameters<ColonySegments["receive"]>) => ends.kept.receive(...offered),
    commit,
  };
  const puller = new SegmentPuller({ segments, signals: ["tick"], settings, metrics, log: silentLogger });
  const stop = new AbortController();
  const running = puller.run(tunnel, ends.agent.epoch, stop.signal);
  await expect.poll(isDone).toBe(true);
  stop.abort();
  await running;
}

const serve = (ends: Ends) => (router: ConnectRouter) =>
  addAgentService(router, { agentId: "a1", sessionId: "s", store: ends.agent, clock: systemClock });

async function counts({ colony, kept }: Ends): Promise<{ rows: number; spans: number }> {
  const { sql } = await kept.segmentSource(tick);
  const [row] = await colony.query(`SELECT count(*) AS rows, count(DISTINCT span_id) AS spans FROM ${sql}`);
  return { rows: Number(row?.["rows"]), spans: Number(row?.["spans"]) };
}

async function put(ends: Ends, segments: number, rows = 10): Promise<void> {
  for (let index = 0; index < segments; index++) {
    await ends.sent.append("tick", tickBody(tickRows(rows, index * rows)));
    await ends.sent.flush();
  }
}

describe("SegmentPuller", () => {
  it("delivers every row once, with more segments than fit into one commit", async () => {
    using folder = temporaryFolder();
    await using ends = await openEnds(folder.path);
    await put(ends, 40);
    await pullUntil(ends, serve(ends), () => ends.kept.stats()["tick"]?.rows === 400);
    expect(await counts(ends)).toEqual({ rows: 400, spans: 400 });
    expect(await ends.colony.gaps()).toEqual([]);
    await pullUntil(ends, serve(ends), () => true);
    expect(await counts(ends)).toEqual({ rows: 400, spans: 400 });
  });

  it("keeps rows before an unreadable segment and before a failed commit, and delivers the rest once", async () => {
    using folder = temporaryFolder();
    await using ends = await openEnds(folder.path);
    await put(ends, 40);
    let [reads, commits] = [0, 0];
    const stored: number[] = [];
    await pullUntil(
      ends,
      serve(ends),
      () => ends.kept.stats()["tick"]?.rows === 400,
      async function* (name) {
        const number = Number(name.split("/").at(-1));
        if (number === 13 && reads++ === 0) throw new CoralError({ code: "unavailable", message: "the connection was lost" });
        const file = ends.sent.locate("tick", number);
        if (file === undefined) throw new CoralError({ code: "not-found", message: "gone" });
        yield readFileSync(file.path);
      },
      async (pull) => {
        // The third one is the first of the second round, while the next segments arrive.
        if (++commits === 3) throw new CoralError({ code: "unavailable", message: "the disk is full" });
        const outcome = await ends.kept.commit(pull);
        stored.push(outcome.storedRows);
        return outcome;
      },
    );
    expect(stored.slice(0, 2)).toEqual([80, 40]);
    expect(stored.reduce((total, rows) => total + rows)).toBe(400);
    expect(await counts(ends)).toEqual({ rows: 400, spans: 400 });
    expect(await ends.colony.gaps()).toEqual([]);
  });

  it("reads segments as files, resumes an interrupted one, and falls back to messages if the agent has no files", async () => {
    using folder = temporaryFolder();
    await using ends = await openEnds(folder.path);
    await put(ends, 6);
    const asked: [name: string, offset: number][] = [];
    await pullUntil(
      ends,
      serve(ends),
      () => ends.kept.stats()["tick"]?.rows === 60,
      async function* (name, { offsetBytes = 0 }) {
        asked.push([name, offsetBytes]);
        const [, , signal = "", number = ""] = name.split("/");
        if (number === "5") throw new CoralError({ code: "unsupported", message: "no files" });
        const file = ends.sent.locate(signal, Number(number));
        if (file === undefined) throw new CoralError({ code: "not-found", message: "gone" });
        const bytes = readFileSync(file.path);
        if (number === "2" && offsetBytes === 0) {
          yield bytes.subarray(0, 100);
          throw new CoralError({ code: "timeout", message: "late" });
        }
        yield bytes.subarray(offsetBytes);
      },
    );
    expect(await counts(ends)).toEqual({ rows: 60, spans: 60 });
    const name = (number: number): string => `segments/${ends.agent.epoch}/tick/${number}`;
    expect(asked).toContainEqual([name(1), 0]);
    expect(asked).toContainEqual([name(2), 100]);
    expect(asked.filter(([one]) => one === name(5))).toEqual([[name(5), 0]]);
  });

  it("skips a segment after three corrupt transfers, and records its rows in the gap ledger", async () => {
    using folder = temporaryFolder();
    await using ends = await openEnds(folder.path);
    await put(ends, 3);
    let reads = 0;
    const lying = (router: ConnectRouter): void => {
      const { store, clock } = { store: ends.agent, clock: systemClock };
      const transport = createRouterTransport((inner) => addAgentService(inner, { agentId: "a1", sessionId: "s", store, clock }));
      router.service(AgentService, {
        listSegments: async (request) =>
          (await transport.unary(AgentService.method.listSegments, undefined, undefined, undefined, request)).message,
        readSegment: async function* (request) {
          for await (const data of ends.sent.read("tick", Number(request.number), 0)) {
            if (request.number === 2n) {
              reads++;
              data[100] = (data[100] as number) ^ 1;
            }
            yield { data: Uint8Array.from(data) };
          }
        },
      });
    };
    await pullUntil(ends, lying, () => ends.kept.stats()["tick"]?.rows === 20);
    expect(reads).toBe(3);
    expect(await ends.colony.gaps()).toMatchObject([{ reason: "unreadable", rows: 10 }]);
    expect(await counts(ends)).toEqual({ rows: 20, spans: 20 });
  });

  it("resumes a stream where it ended", async () => {
    using folder = temporaryFolder();
    await using ends = await openEnds(folder.path);
    await put(ends, 1, 5_000);
    const offsets: number[] = [];
    const flaky = (router: ConnectRouter): void => {
      const validTransport = createRouterTransport(serve(ends));
      router.service(AgentService, {
        listSegments: async (request) =>
          (await validTransport.unary(AgentService.method.listSegments, undefined, undefined, undefined, request)).message,
        readSegment: async function* (request) {
          offsets.push(Number(request.offsetBytes));
          for await (const data of ends.sent.read("tick", 1, Number(request.offsetBytes))) {
            yield { data: Uint8Array.from(data.subarray(0, 10_000)) };
            if (offsets.length < 3) throw new ConnectError("too slow", Code.DeadlineExceeded);
            yield { data: Uint8Array.from(data.subarray(10_000)) };
          }
        },
      });
    };
    await pullUntil(ends, flaky, () => ends.kept.stats()["tick"]?.rows === 5_000);
    expect(offsets).toEqual([0, 10_000, 20_000]);
  });

  it("ends without an error at an agent that does not support segments", async () => {
    using folder = temporaryFolder();
    await using ends = await openEnds(folder.path);
    await pullUntil(
      ends,
      (router) => router.service(AgentService, { hello: () => ({}) }),
      () => true,
    );
    expect(await counts(ends)).toEqual({ rows: 0, spans: 0 });
  });
});
