import { describe, expect, it } from "vitest";
import { createKafkaDecoder, isKafkaRequest } from "./kafka.ts";
import { Replay } from "./replay.fixture.ts";

const int = (size: number, value: number): Buffer => {
  const bytes = Buffer.alloc(size);
  bytes.writeIntBE(value, 0, size);
  return bytes;
};
const text = (value: string) => Buffer.concat([int(2, value.length), Buffer.from(value)]);
const compact = (value: string) => Buffer.concat([Buffer.from([value.length + 1]), Buffer.from(value)]);
const framed = (...parts: Buffer[]) => {
  const body = Buffer.concat(parts);
  return Buffer.concat([int(4, body.length), body]);
};
const request = (api: number, version: number, id: number, ...body: Buffer[]) =>
  framed(int(2, api), int(2, version), int(4, id), text("client-1"), ...body);
const noTags = Buffer.from([0]);

const produce8 = (id: number, acks = -1, topics = ["orders"]) =>
  request(
    0,
    8,
    id,
    int(2, -1),
    int(2, acks),
    int(4, 1000),
    int(4, topics.length),
    ...topics.map((topic) => Buffer.concat([text(topic), int(4, 0)])),
  );
const produced8 = (id: number, code: number) =>
  framed(int(4, id), int(4, 1), text("orders"), int(4, 1), int(4, 0), int(2, code), Buffer.alloc(20));

describe("createKafkaDecoder()", () => {
  it("names produce and fetch by topic, and reads their errors", () => {
    const replay = new Replay(createKafkaDecoder).request(produce8(1)).reply(produced8(1, 0)).request(produce8(2)).reply(produced8(2, 3));
    replay.request(produce8(3, -1, ["a", "b"])).reply(produced8(3, 0));
    const fetch11 = request(1, 11, 4, Buffer.alloc(12), int(4, 1), Buffer.alloc(1), Buffer.alloc(8), int(4, 1), text("events"), int(4, 0));
    replay.request(fetch11).reply(framed(int(4, 4), int(4, 0), int(2, 70), int(4, 9)));
    expect(replay.lines).toEqual([
      "Produce | Produce orders | ",
      "Produce | Produce orders | 3!",
      "Produce | Produce (several topics) | ",
      "Fetch | Fetch events | 70!",
    ]);
  });

  it("reads the compact fields of newer versions", () => {
    const produce9 = request(0, 9, 5, noTags, Buffer.from([0]), int(2, 1), int(4, 1000), Buffer.from([2]), compact("orders"));
    const produced9 = framed(int(4, 5), noTags, Buffer.from([2]), compact("orders"), Buffer.from([2]), int(4, 0), int(2, 10));
    const fetch13 = request(1, 13, 6, noTags, Buffer.alloc(60));
    const versions = request(18, 3, 7, noTags, compact("librdkafka"), compact("2.0"), noTags);
    const replay = new Replay(createKafkaDecoder)
      .request(produce9)
      .reply(produced9)
      .request(fetch13)
      .reply(framed(int(4, 6), noTags, int(4, 0), int(2, 0)));
    replay.request(versions).reply(framed(int(4, 7), int(2, 35)));
    expect(replay.lines).toEqual(["Produce | Produce orders | 10!", "Fetch | Fetch | ", "ApiVersions | ApiVersions | 35!"]);
  });

  it("pairs pipelined requests by correlation id", () => {
    const replay = new Replay(createKafkaDecoder).request(Buffer.concat([request(3, 5, 1, int(4, 0)), request(12, 3, 2, text("group"))]));
    replay.reply(framed(int(4, 1), int(4, 0))).reply(framed(int(4, 2), int(4, 0), int(2, 27)));
    expect(replay.lines).toEqual(["Metadata | Metadata | ", "Heartbeat | Heartbeat | 27!"]);
  });

  it("expects no response where none was requested", () => {
    expect(new Replay(createKafkaDecoder).request(produce8(1, 0)).lines).toEqual(["Produce | Produce orders | "]);
  });

  it("reads the heads of long batches", () => {
    const head = produce8(1);
    head.writeInt32BE(50_000 - 4, 0);
    const replay = new Replay(createKafkaDecoder).request(head, 16_384).request("xx", 33_616).reply(produced8(1, 0));
    expect(replay.lines).toEqual(["Produce | Produce orders | "]);
    expect(replay.requests[0]).toMatchObject({ requestBytes: 50_000, durationNs: 2_000_000 });
  });

  it("counts responses to unseen requests, and resynchronises after a loss", () => {
    const replay = new Replay(createKafkaDecoder).reply(produced8(9, 0)).request(produce8(1)).reply(Buffer.from("ffffffff00000000", "hex"));
    replay.reply(produced8(1, 0));
    expect(replay.lines).toEqual(["Produce | Produce orders | "]);
    expect(replay.undecodedCount).toBe(2);
  });
});

describe("isKafkaRequest()", () => {
  it("distinguishes requests from other bytes", () => {
    expect(isKafkaRequest(produce8(1), 0, produce8(1).length)).toBe(true);
    for (const other of [
      "GET / HTTP/1.1\r\nHost: a\r\n",
      "\0\0\0\x12\x00\x99\0\0\0\0\0\x01\0\x02abcdefgh",
      "\0\0\0\x10\x00\x00\0\0\0\0\0\x01\0\x04\x01\x02\x03\x04",
    ]) {
      expect(isKafkaRequest(Buffer.from(other, "latin1"), 0, other.length), JSON.stringify(other)).toBe(false);
    }
  });
});
