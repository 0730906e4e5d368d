import { describe, expect, it } from "vitest";
import { redisCli, redisInline, redisPipelineGet, redisPipelineSet, redisSubscribe } from "./recorded.fixture.ts";
import { createRedisDecoder, redisErrorWord, redisNames } from "./redis.ts";
import { Replay } from "./replay.fixture.ts";

describe("createRedisDecoder()", () => {
  it("decodes commands and errors of a session in RESP2 and RESP3", () => {
    const replay = new Replay(createRedisDecoder).play(redisCli).close();
    expect(replay.lines).toEqual([
      "COMMAND | COMMAND DOCS | ",
      "SET | SET | ",
      "GET | GET | ",
      "LPUSH | LPUSH | WRONGTYPE!",
      "MULTI | MULTI | ",
      "INCR | INCR | ",
      "GET | GET | ",
      "EXEC | EXEC | ",
      "CONFIG | CONFIG GET | ",
      " | unknown | ERR!",
      "HSET | HSET | ",
      "HGETALL | HGETALL | ",
      "HELLO | HELLO | ",
      "HGETALL | HGETALL | ",
    ]);
    expect(replay.undecodedCount).toBe(0);
  });

  it("counts every command of a pipeline", () => {
    expect(new Replay(createRedisDecoder).play(redisPipelineSet).close().lines).toEqual(Array(32).fill("SET | SET | "));
    expect(new Replay(createRedisDecoder).play(redisPipelineGet).close().lines).toEqual(Array(32).fill("GET | GET | "));
  });

  it("decodes inline commands, and commands split over payloads", () => {
    expect(new Replay(createRedisDecoder).play(redisInline).close().lines).toEqual([
      "PING | PING | ",
      "SET | SET | ",
      "GET | GET | ",
      "PING | PING | ",
    ]);
  });

  it("does not mistake a message for a reply", () => {
    const replay = new Replay(createRedisDecoder).play(redisSubscribe).reply("*3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$1\r\nx\r\n");
    replay.request("*1\r\n$4\r\nPING\r\n").reply(">3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$1\r\nx\r\n*2\r\n$4\r\npong\r\n$0\r\n\r\n").close();
    expect(replay.lines).toEqual(["SUBSCRIBE | SUBSCRIBE | ", "PING | PING | "]);
    expect(replay.undecodedCount).toBe(0);
  });

  it("measures each command of a pipeline up to its own reply", () => {
    const replay = new Replay(createRedisDecoder).request("PING\r\nPING\r\n").reply("+PONG\r\n").reply("+PO").reply("NG\r\n");
    expect(replay.requests.map(({ durationNs, firstByteNs }) => [durationNs, firstByteNs])).toEqual([
      [1_000_000, 1_000_000],
      [3_000_000, 2_000_000],
    ]);
  });

  it("skips long values by their length", () => {
    const replay = new Replay(createRedisDecoder).request("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5000\r\nvvvv", 5029).reply("+OK\r\n");
    replay.request("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n").reply("$5000\r\nvvvv", 3000).reply("vv", 2009).close();
    expect(replay.lines).toEqual(["SET | SET | ", "GET | GET | "]);
    expect(replay.requests[1]).toMatchObject({ durationNs: 2_000_000, responseBytes: 5009 });
  });

  it("counts missed commands after truncation, and continues", () => {
    const replay = new Replay(createRedisDecoder)
      .request("*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPI", 56)
      .reply("+PONG\r\n+PONG\r\n+PONG\r\n+PONG\r\n");
    replay.request("*1\r\n$4\r\nPING\r\n").reply("+PONG\r\n").close();
    expect(replay.lines).toEqual(["PING | PING | ", "PING | PING | "]);
    expect(replay.undecodedCount).toBe(3);
  });

  it("divides the bytes of replies that were not copied among their commands", () => {
    const replay = new Replay(createRedisDecoder).request("*2\r\n$3\r\nGET\r\n$1\r\na\r\n".repeat(4));
    const one = 5000 + 9;
    replay.reply(`$5000\r\n${"x".repeat(5000)}\r\n$5000\r\nxxx`, 3 * one).reply("x".repeat(1000), one);
    replay.request("*1\r\n$4\r\nPING\r\n").reply("+PONG\r\n").close();
    const bytes = replay.requests.filter(({ method }) => method === "GET").map(({ responseBytes }) => responseBytes);
    expect(bytes.slice(0, 2)).toEqual([one, one]);
    expect(bytes.reduce((sum, count) => sum + count, 0)).toBe(4 * one);
  });

  it("ends truncated replies with the next command", () => {
    const replay = new Replay(createRedisDecoder).request("*1\r\n$4\r\nKEYS\r\n*1\r\n$4\r\nPING\r\n").reply("*2000\r\n$1\r\na\r\n", 9000);
    replay.request("*1\r\n$4\r\nPING\r\n").reply("+PONG\r\n").close();
    expect(replay.lines).toEqual(["KEYS | KEYS | ", "PING | PING | ", "PING | PING | "]);
  });
});

describe("redisNames()", () => {
  it.each([
    ["get", "secret", "GET", "GET"],
    ["config", "get", "CONFIG", "CONFIG GET"],
    ["CONFIG", "s3cr3t!", "CONFIG", "CONFIG"],
    ["FT.SEARCH", "idx", "FT.SEARCH", "FT.SEARCH"],
    ["\x01\x02", "", "", "unknown"],
    ["a".repeat(60), "", "", "unknown"],
  ])("names %j", (verb, second, method, route) => {
    expect(redisNames(verb, second)).toEqual({ method, route });
  });
});

describe("redisErrorWord()", () => {
  it.each([
    ["WRONGTYPE Operation against", "WRONGTYPE"],
    ["MOVED 3999 127.0.0.1:6381", "MOVED"],
    ["something else", "ERR"],
    ["", "ERR"],
  ])("reads %j", (text, word) => {
    expect(redisErrorWord(text)).toBe(word);
  });
});
