import { describe, expect, it } from "vitest";
import { createMongoDecoder } from "./mongodb.ts";
import { Replay } from "./replay.fixture.ts";

type Value = string | number | boolean | Document | Document[];
interface Document {
  [name: string]: Value;
}

/** Enough of BSON for commands: texts, int32, booleans, documents, arrays of documents. */
function bson(document: Document): Buffer {
  const parts = Object.entries(document).map(([name, value]) => {
    const head = (type: number) => Buffer.concat([Buffer.from([type]), Buffer.from(`${name}\0`)]);
    if (typeof value === "string") return Buffer.concat([head(2), int32(value.length + 1), Buffer.from(`${value}\0`)]);
    if (typeof value === "number") {
      const bytes = Buffer.alloc(8);
      bytes.writeDoubleLE(value);
      return name === "ok" ? Buffer.concat([head(1), bytes]) : Buffer.concat([head(16), int32(value)]);
    }
    if (typeof value === "boolean") return Buffer.concat([head(8), Buffer.from([value ? 1 : 0])]);
    return Array.isArray(value)
      ? Buffer.concat([head(4), bson(Object.fromEntries(value.entries()) as Document)])
      : Buffer.concat([head(3), bson(value)]);
  });
  const body = Buffer.concat([...parts, Buffer.from([0])]);
  return Buffer.concat([int32(body.length + 4), body]);
}

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32LE(value);
  return bytes;
}

function message(id: number, replyTo: number, operation: number, ...parts: Buffer[]): Buffer {
  const body = Buffer.concat(parts);
  return Buffer.concat([int32(16 + body.length), int32(id), int32(replyTo), int32(operation), body]);
}

const opMsg = (id: number, replyTo: number, document: Document, flags = 0) =>
  message(id, replyTo, 2013, int32(flags), Buffer.from([0]), bson(document));

describe("createMongoDecoder()", () => {
  it.each<[string, Document, Document, string]>([
    ["a find", { find: "users", filter: { name: "secret" }, $db: "shop" }, { cursor: { id: 0 }, ok: 1 }, "find | find users | "],
    ["an insert", { insert: "users", ordered: true }, { n: 1, ok: 1 }, "insert | insert users | "],
    ["a failure", { aggregate: "users" }, { ok: 0, errmsg: "no", code: 13, codeName: "Unauthorized" }, "aggregate | aggregate users | 13!"],
    [
      "a duplicate key",
      { insert: "users" },
      { n: 0, writeErrors: [{ index: 0, code: 11000, errmsg: "E11000" }], ok: 1 },
      "insert | insert users | 11000!",
    ],
    ["a getMore", { getMore: 77, collection: "users" }, { ok: 1 }, "getMore | getMore users | "],
    ["a command without a collection", { hello: 1 }, { ok: 1 }, "hello | hello | "],
    ["a command about a user", { usersInfo: "alice" }, { ok: 1 }, "usersInfo | usersInfo | "],
    ["a collection with numbers", { find: "tmp.agg_out.20240102" }, { ok: 1 }, "find | find tmp.agg_out.{id} | "],
    ["no command at all", { "a secret": "x" }, { ok: 1 }, " | unknown | "],
  ])("names %s", (_, request, reply, line) => {
    const replay = new Replay(createMongoDecoder)
      .request(opMsg(7, 0, request))
      .reply(opMsg(100, 7, reply))
      .close();
    expect(replay.lines).toEqual([line]);
    expect(replay.undecodedCount).toBe(0);
  });

  it("finds the body after a document sequence", () => {
    const sequence = Buffer.concat([Buffer.from([1]), int32(4 + 10 + bson({ a: 1 }).length), Buffer.from("documents\0"), bson({ a: 1 })]);
    const request = message(7, 0, 2013, int32(0), sequence, Buffer.from([0]), bson({ insert: "orders" }));
    expect(new Replay(createMongoDecoder).request(request).reply(opMsg(1, 7, { ok: 1 })).lines).toEqual(["insert | insert orders | "]);
  });

  it("pairs by id in any order", () => {
    const replay = new Replay(createMongoDecoder).request(Buffer.concat([opMsg(1, 0, { find: "a" }), opMsg(2, 0, { find: "b" })]));
    replay.reply(opMsg(90, 2, { ok: 1 })).reply(opMsg(91, 1, { ok: 1 }));
    expect(replay.lines).toEqual(["find | find b | ", "find | find a | "]);
  });

  it("expects no reply to an unacknowledged write", () => {
    expect(new Replay(createMongoDecoder).request(opMsg(1, 0, { insert: "a" }, 2)).lines).toEqual(["insert | insert a | "]);
  });

  it("reads OP_QUERY and OP_REPLY of old drivers", () => {
    const query = message(3, 0, 2004, int32(0), Buffer.from("shop.users\0"), int32(0), int32(10), bson({ name: "secret" }));
    const failed = message(9, 3, 1, int32(2), Buffer.alloc(8), int32(0), int32(1), bson({ code: 17, $err: "x" }));
    const command = message(4, 0, 2004, int32(0), Buffer.from("admin.$cmd\0"), int32(0), int32(-1), bson({ isMaster: 1 }));
    const reply = message(9, 4, 1, int32(8), Buffer.alloc(8), int32(0), int32(1), bson({ ok: 1 }));
    const replay = new Replay(createMongoDecoder)
      .request(query)
      .reply(failed)
      .request(command)
      .reply(reply)
      .request(message(5, 0, 2002, int32(0), Buffer.from("shop.t\0"), bson({})));
    expect(replay.lines).toEqual(["find | find users | 17!", "isMaster | isMaster | ", "insert | insert t | "]);
  });

  it("counts compressed messages without a name", () => {
    const compressed = message(1, 0, 2012, int32(2013), int32(100), Buffer.from([2]), Buffer.alloc(40, 7));
    expect(
      new Replay(createMongoDecoder).request(compressed).reply(message(2, 1, 2012, int32(2013), int32(50), Buffer.from([2]))).lines,
    ).toEqual([" | unknown | "]);
  });

  it("reads the heads of long messages", () => {
    const request = opMsg(1, 0, { insert: "orders", documents: [{ text: "x".repeat(5000) }] });
    const reply = opMsg(2, 1, { cursor: { text: "y".repeat(9000) }, ok: 1 });
    const replay = new Replay(createMongoDecoder).request(request.subarray(0, 256), request.length).reply(reply.subarray(0, 256), 4096);
    replay.reply(reply.subarray(4096, 4200), reply.length - 4096).close();
    expect(replay.lines).toEqual(["insert | insert orders | "]);
    expect(replay.requests[0]).toMatchObject({ durationNs: 2_000_000, responseBytes: reply.length });
  });
});
