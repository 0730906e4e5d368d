import { describe, expect, it } from "vitest";
import { createMemcachedDecoder } from "./memcached.ts";
import { memcachedBinary, memcachedText } from "./recorded.fixture.ts";
import { Replay } from "./replay.fixture.ts";

describe("createMemcachedDecoder()", () => {
  it("decodes text commands: pipelined, with and without replies, with data of any length", () => {
    const replay = new Replay(createMemcachedDecoder).play(memcachedText).close();
    expect(replay.lines).toEqual([
      "set | set | STORED",
      "get | get | HIT",
      "get | get | MISS",
      "set | set | STORED",
      "incr | incr | CLIENT_ERROR!",
      "delete | delete | DELETED",
      "gets | gets | MISS",
      " | unknown | ERROR!",
      "set | set | ",
      "incr | incr | ",
      "mg | mg | HIT",
      "ms | ms | HD",
      "mg | mg | MISS",
      "version | version | ",
      "stats | stats | ",
      "set | set | STORED",
      "get | get | HIT",
      "get | get | HIT",
    ]);
    expect(replay.undecodedCount).toBe(0);
  });

  it("decodes stores under the longest keys, of any bytes", () => {
    const key = "\x10\xa0\x0b".padEnd(250, "k");
    const replay = new Replay(createMemcachedDecoder).request(`set ${key} 4294967295 2147483647 9\r\nget a b\r\n\r\n`).reply("STORED\r\n");
    replay.request(`get ${key}\r\n`).reply(`VALUE ${key} 4294967295 9\r\nget a b\r\n\r\nEND\r\n`).close();
    expect(replay.lines).toEqual(["set | set | STORED", "get | get | HIT"]);
    expect(replay.undecodedCount).toBe(0);
  });

  it("expects no reply to successful quiet meta commands", () => {
    const replay = new Replay(createMemcachedDecoder).request("mg a v q\r\nmg b v q\r\nms c 2 q\r\nhi\r\nmg d v q\r\nmn\r\n");
    replay.reply("VA 2\r\nhi\r\nMN\r\n").request("mg e v\r\n").reply("EN\r\n").request("md f q\r\nmg g v q\r\n").close();
    expect(replay.lines).toEqual([
      "mg | mg | HIT",
      "mg | mg | MISS",
      "ms | ms | ",
      "mg | mg | MISS",
      "mn | mn | MN",
      "mg | mg | MISS",
      "md | md | ",
      "mg | mg | MISS",
    ]);
    expect(replay.undecodedCount).toBe(0);
  });

  it("decodes binary commands, including quiet ones", () => {
    const replay = new Replay(createMemcachedDecoder).play(memcachedBinary).close();
    expect(replay.lines).toEqual([
      "set | set | ",
      "get | get | HIT",
      "get | get | MISS",
      "get | get | MISS",
      "get | get | HIT",
      "get | get | MISS",
      "noop | noop | ",
      "incr | incr | NOT_A_NUMBER!",
      " | unknown | UNKNOWN_COMMAND!",
      "stat | stat | ",
    ]);
    expect(replay.undecodedCount).toBe(0);
  });

  it("resynchronises after truncated replies", () => {
    const replay = new Replay(createMemcachedDecoder).request("get a b c\r\n").reply("VALUE a 0 10\r\n0123456789\r\nVALUE b", 4000);
    replay.request("get d\r\n").reply("END\r\n").close();
    expect(replay.lines).toEqual(["get | get | HIT", "get | get | MISS"]);
  });
});
