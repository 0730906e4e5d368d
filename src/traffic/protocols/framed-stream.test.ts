import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/seeded-random.fixture.ts";
import { FramedStream } from "./framed-stream.ts";

/** Frames of a letter `F`, a length of two bytes, and a body. */
const rules = {
  headerBytes: 3,
  maxHeadBytes: 8,
  frameLength: (bytes: Buffer, at: number) => (bytes[at] === 70 ? 3 + bytes.readUInt16BE(at + 1) : 0),
};

function frame(body: string): Buffer {
  const bytes = Buffer.from(`F\0\0${body}`);
  bytes.writeUInt16BE(body.length, 1);
  return bytes;
}

function collect() {
  const frames: string[] = [];
  const state = { frames, lost: 0, atNs: 0 };
  const stream = new FramedStream(
    rules,
    (bytes, from, to, times) =>
      frames.push(`${bytes.toString("latin1", from + 3, to)} ${times.lengthBytes} ${times.atNs}-${times.lastAtNs}`),
    () => state.lost++,
  );
  const push = (bytes: Buffer, fullLength = bytes.length) => stream.push({ bytes, fullLength, atNs: ++state.atNs, startNs: 0 });
  return { ...state, state, stream, push };
}

describe("FramedStream", () => {
  it("emits several frames of one payload, and one frame of several payloads", () => {
    const { push, frames } = collect();
    push(Buffer.concat([frame("a"), frame(""), frame("bc")]));
    push(frame("hello").subarray(0, 2));
    push(frame("hello").subarray(2, 5));
    push(frame("hello").subarray(5));
    expect(frames).toEqual(["a 4 1-1", " 3 1-1", "bc 5 1-1", "hello 8 2-4"]);
  });

  it("finds the end of a truncated frame, and keeps only its head", () => {
    const { push, frames, state } = collect();
    push(frame("0123456789").subarray(0, 5), 13);
    push(frame("0123456789").subarray(0, 5), 9);
    push(Buffer.from("6789"));
    push(frame("0123456789"));
    expect(frames).toEqual(["01 13 1-1", "01 13 2-3", "0123456789 13 4-4"]);
    expect(state.lost).toBe(0);
  });

  it("is lost when frames start in missing bytes, and resumes at the next start", () => {
    const { push, frames, state } = collect();
    push(frame("01").subarray(0, 4), 200);
    push(Buffer.from("zzzz"));
    push(frame("ok"));
    expect(frames).toEqual(["0 5 1-1", "ok 5 3-3"]);
    expect(state.lost).toBe(1);
  });

  it("resumes with the next frame after lost payloads, without mistaking part of a frame for a frame", () => {
    const { push, frames, state, stream } = collect();
    const outer = frame(frame("next").toString("latin1"));
    push(outer.subarray(0, 3));
    push(outer.subarray(3));
    push(outer.subarray(0, 3));
    stream.lose();
    push(frame("next"));
    expect(frames).toEqual(["F\0\x04ne 10 1-2", "next 7 4-4"]);
    expect(state.lost).toBe(0);
  });

  it("emits all frames, however they are split into payloads and truncated", () => {
    const random = new SeededRandom(7);
    for (let round = 0; round < 500; round++) {
      const bodies = Array.from({ length: 1 + random.below(8) }, () => "x".repeat(random.below(30)));
      const bytes = Buffer.concat(bodies.map(frame));
      const { push, frames } = collect();
      for (let at = 0; at < bytes.length; ) {
        const size = 1 + random.below(20);
        push(bytes.subarray(at, at + size));
        at += size;
      }
      expect(frames.map((line) => Number(line.split(" ")[1]))).toEqual(bodies.map((body) => body.length + 3));
    }
  });
});
