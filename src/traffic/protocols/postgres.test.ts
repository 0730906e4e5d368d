import { describe, expect, it } from "vitest";
import { createPostgresDecoder, sqlState } from "./postgres.ts";
import { pgbenchExtended, pgbenchPipeline, pgbenchPipelineError, pgbenchPrepared, psql } from "./recorded.fixture.ts";
import { Replay } from "./replay.fixture.ts";

function message(type: string, body: string): string {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(4 + body.length);
  return `${type}${length.toString("latin1")}${body}`;
}

const select = "SELECT | select name from t where id = ? | ";
const update = "UPDATE | update t set name = ? where id = ? | ";

describe("createPostgresDecoder()", () => {
  it("decodes simple queries, errors and COPY", () => {
    const replay = new Replay(createPostgresDecoder).play(psql).close();
    expect(replay.lines).toEqual([
      "CREATE | create table t (id int primary key, name text) | ",
      "INSERT | insert into t values (?) | ",
      "INSERT | insert into t values (?) | 23505!",
      "SELECT | select * from nowhere where a = ? | 42P01!",
      "SELECT | select name from t where id = ? | ",
      "SELECT | select ? | ",
      "COPY | copy t from stdin | ",
      "COPY | copy t to stdout | ",
      "BEGIN | begin | ",
      "SELECT | select ?/? | 22012!",
      "ROLLBACK | rollback | ",
    ]);
    expect(replay.undecodedCount).toBe(0);
  });

  it("decodes extended queries and statements prepared earlier", () => {
    const all = [select, update, select, update, select, update];
    expect(new Replay(createPostgresDecoder).play(pgbenchExtended).close().lines).toEqual(all);
    expect(new Replay(createPostgresDecoder).play(pgbenchPrepared).close().lines).toEqual(all);
  });

  it("counts each request of a pipeline", () => {
    const once = ["SELECT | select ? | ", select, "SELECT | select ? | "];
    expect(new Replay(createPostgresDecoder).play(pgbenchPipeline).close().lines).toEqual([...once, ...once]);
  });

  it("emits the requests that an error in a pipeline skips", () => {
    expect(new Replay(createPostgresDecoder).play(pgbenchPipelineError).close().lines).toEqual([
      "SELECT | select ? | ",
      "SELECT | select ?/? | 22012!",
      "SELECT | select ? | 22012!",
    ]);
  });

  it("emits the requests that an error before the Sync skips", () => {
    const execute = message("B", "\0s1\0\0\0\0\0\0\0") + message("E", "\0\0\0\0\0");
    const replay = new Replay(createPostgresDecoder)
      .request(message("P", "s1\0select 1/$1\0\0\0") + execute)
      .request(execute)
      .request(execute);
    replay.reply(message("1", "") + message("2", "") + message("C", "SELECT 1\0") + message("2", "") + message("E", "C22012\0\0"));
    replay.request(execute).request(message("S", "")).reply(message("Z", "I"));
    replay
      .request(message("Q", "select now()\0"))
      .reply(message("C", "SELECT 1\0") + message("Z", "I"))
      .close();
    const failed = "SELECT | select ?/? | 22012!";
    expect(replay.lines).toEqual(["SELECT | select ?/? | ", failed, failed, failed, "SELECT | select now() | "]);
  });

  it("emits a statement that fails to parse", () => {
    const replay = new Replay(createPostgresDecoder).request(message("P", "s1\0select nope\0\0\0") + message("S", ""));
    replay.reply(message("E", "SERROR\0C42703\0Mno\0\0") + message("Z", "I")).close();
    expect(replay.lines).toEqual(["SELECT | select nope | 42703!"]);
  });

  it("knows statements from payloads that the kernel counted", () => {
    const replay = new Replay(createPostgresDecoder);
    replay.decoder.onPrepared?.(Buffer.from(`${message("P", "s1\0select a from b where c = 'secret'\0\0\0")}${message("S", "")}`), false);
    replay.request(message("B", "\0s1\0\0\0\0\0\0\0") + message("E", "\0\0\0\0\0") + message("S", ""));
    replay.reply(message("2", "") + message("C", "SELECT 1\0") + message("Z", "I")).close();
    expect(replay.lines).toEqual(["SELECT | select a from b where c = ? | "]);
  });

  it("ends at ReadyForQuery, however long the result and wherever it is truncated", () => {
    const replay = new Replay(createPostgresDecoder).request(message("Q", "select * from big\0"));
    replay.reply(message("T", "columns") + message("D", "row"), 8192).reply("rest", 8192);
    replay.request(message("Q", "select 1\0")).reply(message("C", "SELECT 1\0") + message("Z", "I"));
    expect(replay.lines).toEqual(["SELECT | select * from big | ", "SELECT | select ? | "]);
    expect(replay.requests[0]).toMatchObject({ durationNs: 2_000_000 });
  });

  it.each(["E 12:30", "D 12:30", "E\0\0row", "E\0\0\0\x05C1234", "D\0\0\0\x05", "Z...."])(
    "does not mistake part of a row for a message after truncated rows: %j",
    (part) => {
      const replay = new Replay(createPostgresDecoder).request(message("Q", "select 1\0") + message("Q", "select 2\0"));
      replay.reply(message("T", "columns") + message("D", "row"), 50_000).reply(`${part}${"x".repeat(500)}${message("Z", "I")}`);
      replay.reply(part).request(message("Q", "select 3 from t\0")).reply(part);
      replay.reply(message("T", "columns") + message("C", "SELECT 1\0") + message("Z", "I")).close();
      expect(replay.lines).toEqual(["SELECT | select ? | ", "SELECT | select ? | ", "SELECT | select ? from t | "]);
      expect(replay.undecodedCount).toBe(0);
    },
  );

  it("decodes nothing of an encrypted connection", () => {
    const replay = new Replay(createPostgresDecoder).request(Buffer.from("0000000804d2162f", "hex")).reply("S");
    replay.request("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03").reply("\x16\x03\x03\x00\x7a").close();
    expect([replay.lines, replay.undecodedCount]).toEqual([[], 0]);
  });
});

describe("sqlState()", () => {
  it.each([
    ["SERROR\0C42P01\0Mx\0\0", "42P01"],
    ["SERROR\0Mx\0\0", "error"],
    ["C42", "error"],
    ["C<b>x!\0", "error"],
    ["", "error"],
  ])("reads %j", (text, state) => {
    const bytes = Buffer.from(text, "latin1");
    expect(sqlState(bytes, 0, bytes.length)).toBe(state);
  });
});
