import { execFileSync } from "node:child_process";
import { createServer } from "node:net";
import { describe, expect, it, vi } from "vitest";
import { createHostRoot, createReadTally } from "./host-root.ts";
import { createHostTree, damagedTexts, hasCommand, hasSaneNumbers } from "./host-tree.fixture.ts";
import { decodeAddress, type ListenSocket, parseListenLine, readListenSockets } from "./tcp-table.ts";

const heading = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
const line = (index: number, local: string, state: string, uid = 0, inode = 1071 + index): string =>
  `   ${index}: ${local} 00000000:0000 ${state} 00000000:00000000 00:00000000 00000000  ${uid}        0 ${inode} 1 000000008b33b1a9 100 0 0 10 0`;

function read(text: string, limit = 100): { sockets: ListenSocket[]; truncated: number; wasRead: boolean } {
  using tree = createHostTree({ "proc/net/tcp": text });
  const sockets: ListenSocket[] = [];
  const tally = createReadTally();
  const wasRead = readListenSockets(createHostRoot(tree.root), "/proc/net/tcp", limit, tally, sockets);
  return { sockets, truncated: tally.truncated, wasRead };
}

describe("decodeAddress()", () => {
  it.each([
    ["0100007F", "127.0.0.1"],
    ["00000000", "0.0.0.0"],
    ["0A01A8C0", "192.168.1.10"],
    ["00000000000000000000000000000000", "::"],
    ["00000000000000000000000001000000", "::1"],
    ["0000000000000000FFFF00000100007F", "::ffff:127.0.0.1"],
    ["B80D0120000000000000000001000000", "2001:db8::1"],
    ["000080FE00000000FF5C50020000FE00", "fe80::250:5cff:fe:0"],
    ["010002000300040005000600070008FF", "2:1:4:3:6:5:ff08:7"],
  ])("reads %s as %s", (hex, expected) => {
    expect(decodeAddress(hex, "LE")).toBe(expected);
  });

  it("reads the words of a big-endian machine", () => {
    expect(decodeAddress("7F000001", "BE")).toBe("127.0.0.1");
    expect(decodeAddress("20010DB8000000000000000000000001", "BE")).toBe("2001:db8::1");
  });

  it.each(["", "0100007", "0100007G", "0100007F00"])("refuses %j", (hex) => {
    expect(decodeAddress(hex)).toBeNull();
  });
});

describe("parseListenLine()", () => {
  it("reads a listener, and nothing else", () => {
    expect(parseListenLine(line(0, "0100007F:1F90", "0A", 33, 4242))).toEqual({
      address: "127.0.0.1",
      port: 8080,
      userId: 33,
      inode: 4242,
    });
    expect(parseListenLine(line(0, "0100007F:1F90", "01"))).toBeNull();
    expect(parseListenLine(heading)).toBeNull();
    expect(parseListenLine("")).toBeNull();
  });

  it("survives damaged text", () => {
    for (const text of damagedTexts([line(0, "0100007F:1F90", "0A")], 16, 1000))
      expect(hasSaneNumbers(parseListenLine(text)), JSON.stringify(text)).toBe(true);
  });
});

describe("readListenSockets()", () => {
  it("stops at the first connection: listeners come first", () => {
    const text = [heading, line(0, "00000000:0016", "0A"), line(1, "0100007F:0016", "01"), line(2, "00000000:0017", "0A"), ""].join("\n");
    expect(read(text).sockets.map((socket) => socket.port)).toEqual([22]);
  });

  it("goes on after half-open connections, which old kernels print among the listeners", () => {
    const text = [heading, line(0, "00000000:0016", "0A"), line(1, "00000000:0016", "03"), line(2, "00000000:0017", "0A")].join("\n");
    expect(read(text).sockets.map((socket) => socket.port)).toEqual([22, 23]);
  });

  it("reads lines that lie across two pieces", () => {
    const lines = Array.from({ length: 1000 }, (_, index) =>
      line(index, `00000000:${(index + 1).toString(16).padStart(4, "0").toUpperCase()}`, "0A"),
    );
    const { sockets } = read([heading, ...lines, ""].join("\n"), 5000);
    expect(sockets.map((socket) => socket.port)).toEqual(Array.from({ length: 1000 }, (_, index) => index + 1));
  });

  it("counts what is above the limit, and says when there is no table", () => {
    const text = [heading, line(0, "00000000:0016", "0A"), line(1, "00000000:0017", "0A")].join("\n");
    expect(read(text, 1)).toMatchObject({ truncated: 1, wasRead: true });
    using tree = createHostTree();
    expect(readListenSockets(createHostRoot(tree.root), "/proc/net/tcp6", 9, createReadTally(), [])).toBe(false);
  });

  it("survives a file without line ends", () => {
    expect(read("x".repeat(500_000)).sockets).toEqual([]);
  });

  it.skipIf(!hasCommand("ss"))("agrees with ss(8) on this machine", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    try {
      await vi.waitFor(() => {
        const sockets: ListenSocket[] = [];
        const root = createHostRoot();
        for (const table of ["tcp", "tcp6"]) readListenSockets(root, `/proc/self/net/${table}`, 5000, createReadTally(), sockets);
        const ours = sockets.map(({ address, port }) => `${address}:${port}`).sort();
        const theirs = execFileSync("ss", ["-Hltn"], { encoding: "utf8" })
          .trim()
          .split("\n")
          .map((row) => row.split(/\s+/)[3]!.replace(/[[\]]/g, "").replace(/%\w+/, "").replace(/^\*:/, ":::"))
          .sort();
        const { port } = server.address() as { port: number };
        expect(ours).toContain(`127.0.0.1:${port}`);
        expect(ours).toEqual(theirs);
      });
    } finally {
      server.close();
    }
  });
});
