import { describe, expect, it } from "vitest";
import { HpackDecoder, type HpackDecoderOptions } from "./hpack.ts";
import { decodeHuffman } from "./hpack-huffman.ts";
import { huffmanTable, staticEntryCount, staticTable } from "./hpack-tables.ts";

type Field = [string | null, string | null];

function reader(options?: HpackDecoderOptions): { decoder: HpackDecoder; read: (hex: string) => Field[] | string } {
  const decoder = new HpackDecoder(options);
  return {
    decoder,
    read: (hex) => {
      const fields: Field[] = [];
      const { isWhole } = decoder.decode(Buffer.from(hex.replaceAll(" ", ""), "hex"), (name, value) => fields.push([name, value]));
      return isWhole ? fields : "damaged";
    },
  };
}

const get: Field[] = [
  [":method", "GET"],
  [":scheme", "http"],
  [":path", "/"],
  [":authority", "www.example.com"],
];

describe("fixed tables", () => {
  it("have the sizes of the standard", () => {
    expect(staticTable()).toHaveLength(staticEntryCount);
    expect(staticTable()[60]).toEqual({ name: "www-authenticate", value: "" });
    expect(staticTable()[15]).toEqual({ name: "accept-encoding", value: "gzip, deflate" });
    const { symbols, lengths } = huffmanTable();
    expect(new Set(symbols).size).toBe(257);
    // A complete code: every string of bits starts with a code.
    expect(lengths.reduce((sum, { bits, count }) => sum + count / 2 ** bits, 0)).toBe(1);
  });
});

describe("decodeHuffman()", () => {
  it("reads strings and checks the padding", () => {
    const read = (hex: string): string | null => decodeHuffman(Buffer.from(hex, "hex"), 0, hex.length / 2);
    expect(read("f1e3c2e5f23a6ba0ab90f4ff")).toBe("www.example.com");
    expect(read("9d29ad171863c78f0b97c8e9ae82ae43d3")).toBe("https://www.example.com");
    expect(read("d07abe941054d444a8200595040b8166e082a62d1bff")).toBe("Mon, 21 Oct 2013 20:13:21 GMT");
    expect(read("")).toBe("");
    expect(read("1f")).toBe("a");
    // Padding of zeros, of 8 ones, and the end mark within a string.
    expect(read("18")).toBeNull();
    expect(read("1fff")).toBeNull();
    expect(read("ffffffff")).toBeNull();
  });
});

describe("HpackDecoder", () => {
  it("reads the requests of RFC 7541, C.3 and C.4", () => {
    for (const blocks of [
      [
        "828684410f7777772e6578616d706c652e636f6d",
        "828684be58086e6f2d6361636865",
        "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
      ],
      ["828684418cf1e3c2e5f23a6ba0ab90f4ff", "828684be5886a8eb10649cbf", "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf"],
    ]) {
      const { decoder, read } = reader();
      expect(read(blocks[0]!)).toEqual(get);
      expect(read(blocks[1]!)).toEqual([...get, ["cache-control", "no-cache"]]);
      expect(read(blocks[2]!)).toEqual([
        [":method", "GET"],
        [":scheme", "https"],
        [":path", "/index.html"],
        [":authority", "www.example.com"],
        ["custom-key", "custom-value"],
      ]);
      expect(decoder.tableBytes).toBe(164);
    }
  });

  it("evicts as RFC 7541, C.5 does", () => {
    const { decoder, read } = reader({ maxTableBytes: 256 });
    read(
      "4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323120474d546e1768747470733a2f2f7777772e6578616d706c652e636f6d",
    );
    expect(decoder.tableBytes).toBe(222);
    expect(read("4803333037c1c0bf")).toEqual([
      [":status", "307"],
      ["cache-control", "private"],
      ["date", "Mon, 21 Oct 2013 20:13:21 GMT"],
      ["location", "https://www.example.com"],
    ]);
    expect(decoder.tableBytes).toBe(222);
    read(
      "88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a69707738666f6f3d4153444a4b48514b425a584f5157454f50495541585157454f49553b206d61782d6167653d333630303b2076657273696f6e3d31",
    );
    expect(decoder.tableBytes).toBe(215);
  });

  it("reads literals without indexing and never-indexed ones, and keeps neither", () => {
    const { decoder, read } = reader();
    expect(read("040c2f73616d706c652f70617468")).toEqual([[":path", "/sample/path"]]);
    expect(read("100870617373776f726406736563726574")).toEqual([["password", "secret"]]);
    expect(decoder.tableBytes).toBe(0);
  });

  it("follows size updates, including zero", () => {
    const { decoder, read } = reader();
    read("400a637573746f6d2d6b65790c637573746f6d2d76616c7565");
    expect(decoder.tableBytes).toBe(54);
    expect(read("20 3fe11f be")).toEqual([[null, null]]);
    expect(decoder.tableBytes).toBe(0);
  });

  it("after joining midway, knows later additions and marks the rest as unknown", () => {
    const { decoder, read } = reader();
    expect(read("82 c0 44022f61 be bf")).toEqual([
      [":method", "GET"],
      [null, null],
      [":path", "/a"],
      [":path", "/a"],
      [null, null],
    ]);
    // An unknown name with a known value.
    expect(read("7f10 0162")).toEqual([[null, "b"]]);
    expect(read("be bf")).toEqual([
      [null, "b"],
      [":path", "/a"],
    ]);
    decoder.forget();
    expect(read("bf 44022f62 be")).toEqual([
      [null, null],
      [":path", "/b"],
      [":path", "/b"],
    ]);
  });

  it("clears the table for an entry that does not fit", () => {
    const { decoder, read } = reader();
    read("44022f61");
    const long = Buffer.concat([Buffer.from("447fa11e", "hex"), Buffer.alloc(4000, "x")]);
    expect(read(long.toString("hex"))).toEqual([[":path", "x".repeat(4000)]]);
    expect(read("be")).toEqual([[":path", "x".repeat(4000)]]);
    const longer = Buffer.concat([Buffer.from("447f811f", "hex"), Buffer.alloc(4096, "x")]);
    expect(read(longer.toString("hex"))).toEqual([[":path", "x".repeat(4096)]]);
    expect(decoder.tableBytes).toBe(0);
    expect(read("be")).toEqual([[null, null]]);
  });

  it("skips values that are not needed, and keeps table positions", () => {
    const { read } = reader({ isWanted: (name) => name === ":path" });
    expect(read("828684418cf1e3c2e5f23a6ba0ab90f4ff 44022f61")).toEqual([...get.slice(0, 3), [":authority", null], [":path", "/a"]]);
    expect(read("be bf")).toEqual([
      [":path", "/a"],
      [":authority", null],
    ]);
  });

  it.each(["80", "ff8080808080", "ffffffffffff", "40", "4001", "4005616263", "4481", "441f", "448118", "04", "0082ffff", "3fffffffff7f"])(
    "rejects %s",
    (hex) => {
      const { decoder, read } = reader();
      read("44022f61");
      expect(read(hex)).toBe("damaged");
      expect(decoder.tableBytes).toBe(0);
    },
  );

  it("stays within its memory limit and terminates on any input", () => {
    let seed = 3;
    const next = (): number => {
      seed = (seed * 1103515245 + 12345) & 0x7fffffff;
      return seed >> 8;
    };
    const { decoder } = reader({ maxTableBytes: 2048 });
    const blocks = ["828684418cf1e3c2e5f23a6ba0ab90f4ff", "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf", "4803333037c1c0bf3fe11f"];
    let emitted = 0;
    for (let round = 0; round < 20_000; round++) {
      const block = round % 2 ? Buffer.from(blocks[next() % 3]!, "hex") : Buffer.alloc(next() % 64);
      for (let index = 0; index < (round % 2 ? 3 : block.length); index++) block[round % 2 ? next() % block.length : index] = next();
      decoder.decode(block, () => emitted++);
      expect(decoder.tableBytes).toBeLessThanOrEqual(2048);
    }
    expect(emitted).toBeGreaterThan(10_000);
    let fields = 0;
    decoder.decode(Buffer.alloc(100_000, 0x82), () => fields++);
    expect(fields).toBe(256);
  });
});
