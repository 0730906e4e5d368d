import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/seeded-random.fixture.ts";
import type { DecoderFactory } from "../core/protocol-decoder.ts";
import type { RecordedPayload } from "../protocols/recorded.fixture.ts";
import * as recordings from "../protocols/recorded.fixture.ts";
import { Replay } from "../protocols/replay.fixture.ts";
import { databaseDecoders } from "./decoders.ts";

const all = Object.values(recordings).filter((recording): recording is readonly RecordedPayload[] => recording[0]?.length === 3);
const decoders = Object.entries(databaseDecoders) as [string, DecoderFactory][];

/** Payloads of any protocol, as a hostile or broken peer would send them. */
function mangle(random: SeededRandom, bytes: Buffer): Buffer {
  switch (random.below(6)) {
    case 0:
      return bytes.subarray(0, random.below(bytes.length + 1));
    case 1: {
      const changed = Buffer.from(bytes);
      for (let count = 1 + random.below(4); count > 0 && changed.length > 0; count--)
        changed[random.below(changed.length)] = random.below(256);
      return changed;
    }
    case 2: {
      // A giant or negative length.
      const changed = Buffer.from(bytes);
      const at = random.below(Math.max(1, changed.length - 4));
      if (changed.length >= at + 4) changed.writeUInt32BE(random.pick([0xffffffff, 0x7fffffff, 0x80000000, 0, 1, 0x00ffffff]), at);
      return changed;
    }
    case 3:
      return Buffer.concat([bytes, bytes]);
    case 4:
      return Buffer.from(Array.from({ length: random.below(200) }, () => random.below(256)));
    default:
      return bytes;
  }
}

describe.each(decoders)("the decoder of %s", (_, factory) => {
  it("survives mangled, foreign and endless payloads, and emits bounded names", () => {
    const random = new SeededRandom(4);
    for (let round = 0; round < 150; round++) {
      const replay = new Replay(factory, random.pick(["client", "server"]));
      const recording = random.pick(all);
      for (let count = 0; count < 40; count++) {
        const [from, lengthBytes, head] = random.below(4) === 0 ? random.pick(random.pick(all)) : random.pick(recording);
        const bytes = mangle(random, Buffer.from(head, "base64"));
        const length = random.pick([bytes.length, bytes.length + random.below(5000), Math.max(lengthBytes, bytes.length), 2 ** 31 - 1]);
        if (random.below(20) === 0) replay.decoder.onIdle();
        if (random.below(20) === 0) replay.miss(random.pick(["requests", "replies"]));
        if (from === "client") replay.request(bytes, length);
        else replay.reply(bytes, length);
      }
      replay.close();
      for (const request of replay.requests) {
        expect(request.route.length).toBeLessThanOrEqual(330);
        expect(request.method.length).toBeLessThanOrEqual(40);
        expect(request.status).toMatch(/^[\w.-]{0,40}$/);
        expect(request.durationNs).toBeGreaterThanOrEqual(0);
        expect(request.queueNs ?? 0).toBeGreaterThanOrEqual(0);
        expect(request.firstByteNs ?? 0).toBeGreaterThanOrEqual(0);
      }
    }
  });

  it("keeps keys and values out of names, mangled or not", () => {
    const random = new SeededRandom(6);
    for (let round = 0; round < 400; round++) {
      const replay = new Replay(factory);
      for (const [from, lengthBytes, head] of random.pick(all)) {
        const whole = Buffer.from(head, "base64");
        const bytes = random.below(3) === 0 ? whole.subarray(0, random.below(whole.length + 1)) : whole;
        if (from === "client") replay.request(bytes, lengthBytes);
        else replay.reply(bytes, lengthBytes);
      }
      expect(replay.close().lines.join("\n")).not.toMatch(/secret|alice|VXKe|key1|key:|rand_int/i);
    }
  });

  it("decodes all requests of a recording after garbage", () => {
    const random = new SeededRandom(5);
    for (const recording of all) {
      const clean = new Replay(factory).play(recording).close();
      if (clean.lines.length < 6 || clean.undecodedCount > 0) continue;
      const replay = new Replay(factory).request(Buffer.from(Array.from({ length: 40 }, () => 128 + random.below(128))), 4000);
      replay.play(recording).play(recording).close();
      expect(replay.lines.slice(-2)).toEqual(clean.lines.slice(-2));
    }
  });

  it("emits the same for payloads split into single bytes", () => {
    for (const recording of all) {
      const isWhole = recording.every(([, lengthBytes, head]) => Buffer.from(head, "base64").length === lengthBytes);
      const clean = new Replay(factory).play(recording).close();
      if (!isWhole || clean.lines.length === 0 || clean.undecodedCount > 0) continue;
      const replay = new Replay(factory);
      for (const [from, , head] of recording) {
        // The first message of a Postgres connection and a greeting of MySQL are recognised whole.
        const bytes = Buffer.from(head, "base64");
        const isStart = bytes[0] === 0 || bytes[4] === 10 || bytes.length === 1;
        for (const piece of isStart ? [bytes] : Array.from(bytes, (byte) => Buffer.from([byte]))) {
          if (from === "client") replay.request(piece);
          else replay.reply(piece);
        }
      }
      expect(replay.close().lines).toEqual(clean.lines);
    }
  });

  it("emits no request as no-reply or failed when replies were lost", () => {
    for (const recording of all) {
      const clean = new Replay(factory).play(recording).close();
      if (clean.lines.length < 6 || clean.undecodedCount > 0) continue;
      const known = new Set(clean.lines);
      for (let lost = 0; lost < recording.length; lost++) {
        if (recording[lost]?.[0] !== "server") continue;
        const replay = new Replay(factory)
          .play(recording.slice(0, lost))
          .miss("replies")
          .play(recording.slice(lost + 1))
          .close();
        for (const line of replay.lines.filter((text) => text.endsWith("!"))) expect(known).toContain(line);
      }
    }
  });

  it("counts a request that was open when replies were lost as undecoded", () => {
    for (const recording of all) {
      const clean = new Replay(factory).play(recording).close();
      if (clean.lines.length < 6 || clean.undecodedCount > 0) continue;
      const lost = recording.findLastIndex(([from]) => from === "server");
      const open = new Replay(factory).play(recording.slice(0, lost)).close();
      if (!open.lines.some((line) => line.includes("no-reply"))) continue;
      const replay = new Replay(factory).play(recording.slice(0, lost)).miss("replies").close();
      expect(replay.lines.join()).not.toContain("no-reply");
      expect(replay.undecodedCount).toBeGreaterThan(0);
    }
  });

  it("bounds the number of requests without a reply", () => {
    for (const recording of all) {
      const replay = new Replay(factory);
      const requests = recording.filter(([from]) => from === "client");
      for (let round = 0; round < 9000 / requests.length; round++)
        for (const [, lengthBytes, head] of requests) replay.request(Buffer.from(head, "base64"), lengthBytes);
      const before = replay.requests.length;
      replay.close();
      expect(replay.requests.length - before).toBeLessThanOrEqual(8192);
    }
  });
});
