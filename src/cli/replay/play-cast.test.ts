import { describe, expect, test } from "vitest";
import type { CliIo } from "../output/cli-io.ts";
import type { CastEvent, CastHeader } from "./asciicast.ts";
import { resetTerminal } from "./harmless-output.ts";
import { type PlayOptions, playCast } from "./play-cast.ts";

const header: CastHeader = { width: 80, height: 24, timestamp: null, title: "" };

function setUp(isTTY: boolean) {
  let text = "";
  let press: (key: string) => void = () => undefined;
  const stop = new AbortController();
  const io = {
    stdout: { write: (part: string) => (text += part), isTTY },
    stderr: { write: () => true },
    stdin: (async function* () {})(),
    env: {},
    signal: stop.signal,
    terminal: {
      readKeys: (listener: (key: string) => void) => {
        press = listener;
        return () => undefined;
      },
      readBytes: () => () => undefined,
      onResize: () => () => undefined,
    },
  } as unknown as CliIo;
  return { io, shown: () => text, press: (key: string) => press(key) };
}

const options: PlayOptions = { speed: Number.POSITIVE_INFINITY, idleLimitMs: 1_000, isRaw: false, onHeader: () => undefined };

async function* castOf(...events: [atMs: number, data: string, kind?: string][]): AsyncGenerator<CastHeader | CastEvent> {
  yield header;
  for (const [atMs, data, kind = "o"] of events) yield { atMs, kind, data };
}

describe("playCast()", () => {
  test("shows output but not input, without sequences that do not draw", async () => {
    const { io, shown } = setUp(false);
    const end = await playCast(castOf([0, "a\u001b[6n"], [5_000, "password", "i"], [9_000, "b"]), io, options);
    expect(shown()).toBe("ab");
    expect(end).toEqual({ lengthMs: 9_000, isComplete: true });
  });

  test("plays raw when requested, and resets the terminal at the end", async () => {
    const { io, shown } = setUp(true);
    await playCast(castOf([0, "a\u001b[6n"]), io, { ...options, isRaw: true });
    expect(shown()).toBe(`a\u001b[6n${resetTerminal}\n`);
  });

  test("keeps the original pace, scaled by the speed, and shortens pauses", async () => {
    const { io, shown } = setUp(false);
    const startedMs = performance.now();
    await playCast(castOf([200, "a"], [60_000, "b"]), io, { ...options, speed: 4, idleLimitMs: 400 });
    const tookMs = performance.now() - startedMs;
    expect(shown()).toBe("ab");
    expect(tookMs).toBeGreaterThanOrEqual(140);
    // The full pause alone would take 15 s.
    expect(tookMs).toBeLessThan(14_000);
  });

  test("quits with q, and pauses and resumes with space", async () => {
    const ended = setUp(true);
    const playing = playCast(castOf([0, "a"], [60_000, "b"]), ended.io, { ...options, speed: 1, idleLimitMs: 60_000 });
    await expect.poll(ended.shown).toBe("a");
    ended.press("q");
    expect(await playing).toEqual({ lengthMs: 0, isComplete: false });

    const paused = setUp(true);
    const events = (async function* () {
      yield header;
      yield { atMs: 0, kind: "o", data: "a" };
      paused.press(" ");
      yield { atMs: 1, kind: "o", data: "b" };
    })();
    const waiting = playCast(events, paused.io, options);
    await expect.poll(paused.shown).toBe("a");
    paused.press(" ");
    expect(await waiting).toMatchObject({ isComplete: true });
    expect(paused.shown()).toContain("ab");
  });

  test("survives timestamps that go backwards", async () => {
    const { io, shown } = setUp(false);
    expect(await playCast(castOf([500, "a"], [100, "b"], [600, "c"]), io, options)).toEqual({ lengthMs: 600, isComplete: true });
    expect(shown()).toBe("abc");
  });
});
