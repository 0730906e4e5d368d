import { describe, expect, it } from "vitest";
import { createMysqlDecoder } from "./mysql.ts";
import { mariadbClient, mariadbCommands, mariadbCompressed } from "./recorded.fixture.ts";
import { Replay } from "./replay.fixture.ts";

function packet(sequence: number, body: string): Buffer {
  const bytes = Buffer.from(`\0\0\0\0${body}`, "latin1");
  bytes.writeUIntLE(bytes.length - 4, 0, 3);
  bytes[3] = sequence;
  return bytes;
}

const ok = packet(1, "\x00\x00\x00\x02\x00\x00\x00");

describe("createMysqlDecoder()", () => {
  it("decodes a session: text and prepared statements, errors, a long result, pipelined commands", () => {
    const replay = new Replay(createMysqlDecoder).play(mariadbCommands).close();
    expect(replay.lines).toEqual([
      "CREATE | CREATE DATABASE IF NOT EXISTS d | ",
      "USE | USE d | ",
      "DROP | DROP TABLE IF EXISTS t | ",
      "CREATE | CREATE TABLE t (id BIGINT PRIMARY KEY, name VARCHAR(?)) | ",
      "INSERT | INSERT INTO t VALUES (?) | ",
      "INSERT | INSERT INTO t VALUES (?) | 1062!",
      "SELECT | SELECT * FROM nowhere | 1146!",
      "SELECT | SELECT name FROM t WHERE id = ? | ",
      "PREPARE | SELECT name FROM t WHERE id = ? | ",
      "SELECT | SELECT name FROM t WHERE id = ? | ",
      "SELECT | SELECT name FROM t WHERE id = ? | ",
      "SELECT | SELECT name FROM t WHERE id = ? | ",
      "PING | PING | ",
      "SELECT | SELECT seq, REPEAT(?, ?) FROM seq_1_to_600 | ",
      "PREPARE | unknown | 1064!",
      "SELECT | SELECT ? | ",
      "SELECT | SELECT broken from | 1064!",
      "SELECT | SELECT id FROM t WHERE id = ? | ",
    ]);
    expect(replay.undecodedCount).toBe(0);
  });

  it("decodes a session of the command-line client", () => {
    expect(new Replay(createMysqlDecoder).play(mariadbClient).close().lines).toEqual([
      "SELECT | select count(*) from t | ",
      "SELECT | select * from t where name = ? | ",
      "SELECT | select ? union select ? | ",
    ]);
  });

  it("counts compressed requests as undecoded", () => {
    const replay = new Replay(createMysqlDecoder).play(mariadbCompressed).close();
    expect(replay.lines).toEqual([]);
    expect(replay.undecodedCount).toBe(2);
  });

  it("decodes and counts nothing after the request for TLS", () => {
    const greeting = Buffer.from(mariadbClient[0]?.[2] ?? "", "base64");
    const request = packet(1, `\x85\xae\xff\x00${"\0".repeat(28)}`);
    const replay = new Replay(createMysqlDecoder)
      .reply(greeting)
      .request(request)
      .request("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
      .reply("\x16\x03\x03\x00\x7a")
      .close();
    expect([replay.lines, replay.undecodedCount]).toEqual([[], 0]);
  });

  it("measures from the command to the last byte of its reply", () => {
    const replay = new Replay(createMysqlDecoder)
      .request(packet(0, "\x03SELECT a FROM b"))
      .reply(packet(1, "\x01"))
      .reply(packet(2, "row"))
      .close();
    expect(replay.requests[0]).toMatchObject({
      durationNs: 2_000_000,
      firstByteNs: 1_000_000,
      requestBytes: 20,
      responseBytes: 12,
      queueNs: null,
    });
  });

  it("after joining midway, has no text for statements prepared before", () => {
    const execute = packet(0, "\x17\x09\x00\x00\x00\x00\x01\x00\x00\x00");
    const replay = new Replay(createMysqlDecoder)
      .reply(packet(3, "row"))
      .request(execute)
      .reply(ok)
      .request(packet(0, "\x0e"))
      .reply(ok)
      .close();
    expect(replay.lines).toEqual([" | unknown | ", "PING | PING | "]);
  });

  it("reads a header and its body from separate payloads", () => {
    const query = packet(0, "\x03SELECT 1 FROM dual");
    const replay = new Replay(createMysqlDecoder)
      .request(query.subarray(0, 4))
      .request(query.subarray(4))
      .reply(ok.subarray(0, 4))
      .reply(ok.subarray(4))
      .close();
    expect(replay.lines).toEqual(["SELECT | SELECT ? FROM dual | "]);
  });

  it("does not mistake a loaded file for a request, and reports the result of the load", () => {
    const replay = new Replay(createMysqlDecoder);
    for (const end of [ok, packet(9, "\xff\x56\x05#HY000Incorrect integer value")]) {
      replay.request(packet(0, "\x03load data local infile '/a' into table t")).reply(packet(1, "\xfb/a"));
      // Only the start of a long send is captured.
      replay.request(packet(2, "1\tone\n".repeat(200)).subarray(0, 1024), 60_000).request("2\ttwo\n3\tthree\n".repeat(20), 40_000);
      replay.reply(end);
    }
    replay.request(packet(0, "\x03select 1")).reply(ok).close();
    const load = "LOAD | load data local infile ? into table t | ";
    expect(replay.lines).toEqual([load, `${load}1366!`, "SELECT | select ? | "]);
    expect(replay.undecodedCount).toBe(0);
  });

  it("does not mistake a progress report of MariaDB for a reply", () => {
    const progress = "\xff\xff\xff\x01\x01\x01\x10\x27\x00\x07Reading";
    const replay = new Replay(createMysqlDecoder).request(packet(0, "\x03alter table t engine=aria"));
    replay.reply(packet(1, progress)).reply(packet(2, progress)).reply(packet(3, "\x00\x00\x00\x02\x00\x00\x00"));
    replay
      .request(packet(0, "\x03alter table t add u int unique"))
      .reply(packet(1, progress))
      .reply(packet(2, "\xff\x26\x04#23000Duplicate"))
      .close();
    expect(replay.lines).toEqual(["ALTER | alter table t engine = aria | ", "ALTER | alter table t add u int unique | 1062!"]);
    expect(replay.undecodedCount).toBe(0);
  });

  it("skips the query attributes of MySQL 8", () => {
    expect(new Replay(createMysqlDecoder).request(packet(0, "\x03\x00\x01SELECT 1")).reply(ok).close().lines).toEqual([
      "SELECT | SELECT ? | ",
    ]);
  });

  it("reads the text of a truncated command", () => {
    const query = packet(0, `\x03SELECT a FROM b WHERE c = '${"secret".repeat(400)}'`);
    expect(new Replay(createMysqlDecoder).request(query.subarray(0, 64), query.length).reply(ok).close().lines).toEqual([
      "SELECT | SELECT a FROM b WHERE c = ?… | ",
    ]);
  });

  it("emits no-reply when the connection closes, and nothing when it is evicted", () => {
    const query = packet(0, "\x03SELECT a");
    expect(new Replay(createMysqlDecoder).request(query).close().lines).toEqual(["SELECT | SELECT a | no-reply!"]);
    const forgotten = new Replay(createMysqlDecoder).request(query);
    forgotten.decoder.onClose(null);
    expect([forgotten.lines, forgotten.undecodedCount]).toEqual([[], 1]);
  });
});
