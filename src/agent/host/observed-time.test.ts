import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ObservedTime } from "./observed-time.ts";

interface Recorded {
  at: number;
  kind: string;
  message: string;
  details: string;
}

const startMs = Date.UTC(2026, 10, 18, 12);
let directory = "";
let wallMs = startMs;
let monotonicMs = 50_000;
let rows: Recorded[] = [];
const clock = { wallMs: () => wallMs, monotonicMs: () => monotonicMs };

function pass(ms: number, suspendedMs = 0): void {
  wallMs += ms + suspendedMs;
  monotonicMs += ms;
}

function processOf(bootId = "boot-1"): ObservedTime {
  const store = {
    append: (_signal: unknown, added: readonly unknown[]) => {
      rows.push(...(added as Recorded[]));
      return Promise.resolve({ firstSeq: 1, lastSeq: 1 });
    },
  };
  return new ObservedTime({ file: join(directory, "observed.json"), owner: undefined, bootId, store, unstoredMs: () => 10_000, clock });
}

const gaps = (): unknown[] =>
  rows.map(({ details }) => {
    const { fromMs, untilMs, reason } = JSON.parse(details) as { fromMs: number; untilMs: number; reason: string };
    return [fromMs - startMs, untilMs - startMs, reason];
  });

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "coral-observed-"));
  wallMs = startMs;
  monotonicMs = 50_000;
  rows = [];
});

afterEach(() => rm(directory, { recursive: true, force: true }));

describe("ObservedTime", () => {
  it("records nothing on the first start and while it runs", async () => {
    const observed = processOf();
    await observed.start();
    for (let beat = 0; beat < 5; beat++) {
      pass(2_000);
      await observed.beat();
    }
    // A busy process writes its marks late while the hooks keep observing.
    pass(20_000);
    await observed.beat();
    expect(rows).toEqual([]);
  });

  it("records the time between a stop and the next start", async () => {
    const first = processOf();
    await first.start();
    pass(7_000);
    await first.stop();
    pass(360_000);
    await processOf().start();
    expect(gaps()).toEqual([[7_000, 367_000, "stopped"]]);
    expect(rows[0]).toMatchObject({
      at: (startMs + 367_000) * 1_000,
      kind: "agent-unobserved",
      message: "The agent observed nothing for 6m: it was stopped",
    });
  });

  it("starts the gap of a killed agent one window before its last mark, because that window was lost", async () => {
    const first = processOf();
    await first.start();
    pass(60_000);
    await first.beat();
    pass(30_000);
    await processOf().start();
    expect(gaps()).toEqual([[50_000, 90_000, "killed"]]);
  });

  it("distinguishes a reboot from a kill", async () => {
    await processOf().start();
    wallMs += 120_000;
    monotonicMs = 9_000;
    await processOf("boot-2").start();
    expect(gaps()).toEqual([[-10_000, 120_000, "host-down"]]);
  });

  it("records a suspended host", async () => {
    const observed = processOf();
    await observed.start();
    pass(2_000, 600_000);
    await observed.beat();
    expect(gaps()).toEqual([[2_000, 602_000, "suspended"]]);
  });

  it("measures with the monotonic clock when the wall clock was set back", async () => {
    const first = processOf();
    await first.start();
    await first.stop();
    monotonicMs += 40_000;
    wallMs -= 3_600_000;
    await processOf().start();
    expect(gaps()).toEqual([[-3_640_000, -3_600_000, "stopped"]]);
  });

  it("replaces a damaged mark", async () => {
    await writeFile(join(directory, "observed.json"), '{"wallMs":17');
    await processOf().start();
    expect(rows).toEqual([]);
    expect(JSON.parse(await readFile(join(directory, "observed.json"), "utf8"))).toMatchObject({ wallMs: startMs, isStopped: false });
  });
});
