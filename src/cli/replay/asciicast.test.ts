import { describe, expect, test } from "vitest";
import { type CastEvent, type CastHeader, readCast } from "./asciicast.ts";

async function* parts(...texts: (string | Uint8Array)[]): AsyncGenerator<Uint8Array> {
  for (const text of texts) yield typeof text === "string" ? Buffer.from(text) : text;
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}

async function read(...texts: (string | Uint8Array)[]): Promise<(CastHeader | CastEvent)[]> {
  return await all(readCast(parts(...texts)));
}

const header = '{"version":2,"width":80,"height":24,"timestamp":1700000000,"title":"shell"}\n';

describe("readCast()", () => {
  test("reads header and events from chunks of any size", async () => {
    const text = Buffer.from(`${header}[0.5,"o","grüße\\r\\n"]\n[1.25,"i","x"]\n\n[2,"r","100x40"]\n`);
    const expected = [
      { width: 80, height: 24, timestamp: 1_700_000_000, title: "shell" },
      { atMs: 500, kind: "o", data: "grüße\r\n" },
      { atMs: 1_250, kind: "i", data: "x" },
      { atMs: 2_000, kind: "r", data: "100x40" },
    ];
    expect(await read(text)).toEqual(expected);
    expect(await read(...Array.from(text, (byte) => Uint8Array.of(byte)))).toEqual(expected);
  });

  test("ignores a truncated last line, and accepts one without a line feed", async () => {
    expect(await read(header, '[0.5,"o","a"]\n[0.6,"o","b')).toHaveLength(2);
    expect(await read(header, '[0.5,"o","a"]')).toHaveLength(2);
  });

  test.each([
    ["nothing", ""],
    ["not JSON", "hello\n"],
    ["another version", '{"version":1,"width":80,"height":24}\n'],
    ["no size", '{"version":2,"width":0,"height":24}\n'],
    ["an invalid event", `${header}{"a":1}\n`],
    ["a negative time", `${header}[-1,"o","x"]\n`],
    ["a time that is not a number", `${header}["1","o","x"]\n`],
    ["a broken line in the middle", `${header}[0.5,"o\n[0.6,"o","x"]\n`],
  ])("rejects %s", async (_what, text) => {
    await expect(read(text)).rejects.toMatchObject({ code: "invalid" });
  });

  test("does not buffer an endless line", async () => {
    async function* endless(): AsyncGenerator<Uint8Array> {
      yield Buffer.from(header);
      for (;;) yield Buffer.alloc(1024 * 1024, 0x61);
    }
    await expect(all(readCast(endless()))).rejects.toThrow("too long");
  });
});
