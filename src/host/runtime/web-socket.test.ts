import { describe, expect, it } from "vitest";
import { seededRandom } from "../../base/damaged-texts.fixture.ts";
import { exitIn } from "./cri-exec.ts";
import { demultiplex } from "./docker-exec.ts";
import { createFrameReader, encodeFrame } from "./web-socket.ts";

/** A frame as a server sends it: unmasked. */
function serverFrame(first: number, data: Buffer): Buffer {
  const head =
    data.length < 126
      ? Buffer.from([first, data.length])
      : data.length < 65_536
        ? Buffer.from([first, 126, data.length >> 8, data.length & 255])
        : Buffer.concat([
            Buffer.from([first, 127, 0, 0, 0, 0]),
            Buffer.from([data.length >>> 24, (data.length >> 16) & 255, (data.length >> 8) & 255, data.length & 255]),
          ]);
  return Buffer.concat([head, data]);
}

function read(pieces: readonly Buffer[]): { messages: string[]; pings: number; isClosed: boolean } {
  const seen = { messages: [] as string[], pings: 0, isClosed: false };
  const reader = createFrameReader({
    onMessage: (data) => seen.messages.push(data.toString("latin1")),
    onPing: () => seen.pings++,
    onClose: () => {
      seen.isClosed = true;
    },
  });
  for (const piece of pieces) reader(piece);
  return seen;
}

describe("createFrameReader()", () => {
  const long = Buffer.alloc(70_000, "x");
  const stream = Buffer.concat([
    serverFrame(0x82, Buffer.from("one")),
    serverFrame(0x02, Buffer.from("tw")),
    serverFrame(0x89, Buffer.from("are you there")),
    serverFrame(0x80, Buffer.from("o")),
    serverFrame(0x82, Buffer.alloc(300, "y")),
    serverFrame(0x82, long),
    serverFrame(0x88, Buffer.from([3, 232])),
  ]);

  it("assembles messages, however they are split", () => {
    const random = seededRandom(7);
    for (let round = 0; round < 50; round++) {
      const pieces: Buffer[] = [];
      for (let at = 0; at < stream.length; ) {
        const length = 1 + Math.floor(random() * (round < 25 ? 40_000 : 5));
        // Single bytes for the first messages only: the long one would take too long.
        const end = at > 400 ? stream.length : at + length;
        pieces.push(stream.subarray(at, end));
        at = end;
      }
      const seen = read(pieces);
      expect(seen.messages.map((text) => text.length)).toEqual([3, 3, 300, 70_000]);
      expect([seen.pings, seen.isClosed]).toEqual([1, true]);
    }
  });

  it.each([
    ["a mask", Buffer.from([0x82, 0x81, 1, 2, 3, 4, 5])],
    ["an extension", Buffer.from([0xc2, 0x01, 5])],
    ["a length beyond all bounds", Buffer.from([0x82, 127, 255, 255, 255, 255, 255, 255, 255, 255])],
  ])("refuses %s", (_name, bytes) => {
    expect(() => read([bytes])).toThrow("Cannot read the streams");
  });

  it("reads what encodeFrame() masks, once it is unmasked", () => {
    for (const length of [0, 1, 125, 126, 65_535, 65_536]) {
      const frame = encodeFrame(2, Buffer.alloc(length, 7));
      const headBytes = length < 126 ? 2 : length < 65_536 ? 4 : 10;
      const mask = frame.subarray(headBytes, headBytes + 4);
      const data = frame.subarray(headBytes + 4).map((byte, at) => byte ^ (mask[at & 3] ?? 0));
      expect([frame[0], (frame[1] ?? 0) & 0x80, data.length]).toEqual([0x82, 0x80, length]);
      expect(data.every((byte) => byte === 7)).toBe(true);
    }
  });

  it("rejects random bytes without crashing", () => {
    const random = seededRandom(11);
    for (let round = 0; round < 2_000; round++) {
      const bytes = Buffer.from(Array.from({ length: Math.floor(random() * 40) }, () => Math.floor(random() * 256)));
      try {
        read([bytes]);
      } catch (error) {
        expect((error as Error).message).toContain("Cannot read the streams");
      }
    }
  });
});

describe("demultiplex()", () => {
  it("separates stdout from stderr, however the bytes are split", () => {
    const frame = (kind: number, text: string): Buffer =>
      Buffer.concat([Buffer.from([kind, 0, 0, 0, 0, 0, 0, text.length]), Buffer.from(text)]);
    const stream = Buffer.concat([frame(1, "out"), frame(2, "err"), frame(1, ""), frame(1, "more")]);
    for (let cut = 1; cut < stream.length; cut++) {
      const seen: string[] = [];
      const take = demultiplex({
        push: ({ stream: name, data }) => {
          seen.push(`${name}:${Buffer.from(data).toString()}`);
          return true;
        },
      });
      for (let at = 0; at < stream.length; at += cut) take(stream.subarray(at, at + cut));
      expect(seen).toEqual(["stdout:out", "stderr:err", "stdout:", "stdout:more"]);
    }
  });
});

describe("exitIn()", () => {
  it.each([
    ['{"metadata":{},"status":"Success"}', { code: 0 }],
    ['{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}', { code: 3 }],
    ['{"status":"Failure","message":"no such file"}', { problem: "no such file" }],
    [
      '{"status":"Failure","details":{"causes":[{"reason":"ExitCode","message":"999"}]}}',
      { problem: "the container runtime gave no reason" },
    ],
    ["not json", { problem: "the container runtime gave no reason" }],
  ])("reads %s", (text, expected) => {
    expect(exitIn(text)).toEqual(expected);
  });
});
