import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { silentLogger } from "../../base/log.ts";
import type { EvidenceFact } from "../../model/diagnosis.ts";
import type { Engine } from "../engine/engine.ts";
import { derivedSignals, signals } from "../signals/signal-list.ts";
import { TestClock, temporaryFolder, testEngine } from "../store.fixture.ts";
import { type ColonyStore, openColonyStore } from "./colony-store.ts";
import { findEvidence, storeEvidence } from "./evidence-table.ts";

const folder = temporaryFolder();
let engine: Engine;

const open = (): Promise<ColonyStore> =>
  openColonyStore(engine, {
    file: folder.file("colony.duckdb"),
    signals: [...signals, ...derivedSignals],
    maxBytes: 64 * 1024 ** 2,
    clock: new TestClock(),
    log: silentLogger,
  });

const evidence = (id: string, statement: string): EvidenceFact => ({
  id,
  service: "stock",
  kind: "slow",
  pointer: "GET /reserve",
  statement,
  name: "duration of requests",
  unit: "us",
  usual: 1,
  now: 2,
  before: [{ fromMs: 0, untilMs: 1 }],
  after: { fromMs: 2, untilMs: 3 },
  commands: ["coral query red stock"],
});

beforeAll(async () => {
  engine = await testEngine(folder.path);
});

afterAll(async () => {
  await engine.close();
  folder[Symbol.dispose]();
});

describe("evidence", () => {
  it("survives a restart, keeps the newest of an id, and at most 2,000 in total", async () => {
    const first = await open();
    expect(await findEvidence(first, "ev-1")).toBeUndefined();
    const many = Array.from({ length: 2_000 }, (_, index) => evidence(`ev-old-${index}`, "old"));
    await storeEvidence(first, many, 1_000);
    await storeEvidence(first, [evidence("ev-1", "stale"), evidence("ev-2", "it is slow")], 2_000);
    await storeEvidence(first, [evidence("ev-1", "it's slow")], 3_000);
    await first.close();
    const second = await open();
    expect(await findEvidence(second, "ev-1")).toEqual(evidence("ev-1", "it's slow"));
    expect(await findEvidence(second, "ev-2")).toMatchObject({ statement: "it is slow" });
    const [row = {}] = await second.query("SELECT count(*)::DOUBLE AS n FROM registry.evidence");
    expect(row["n"]).toBe(2_000);
    await second.close();
  });
});
