import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import { describe, expect, it, vi } from "vitest";
import { damagedTexts } from "../../base/damaged-texts.fixture.ts";
import { createHostRoot, createReadTally } from "../files/host-root.ts";
import { createHostTree, hasCommand, hasSaneNumbers } from "../host-tree.fixture.ts";
import { readSocketTable } from "./socket-table.ts";

const heading = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
const line = (index: number, local: string, state: string, { uid = 0, inode = 1071 + index, remote = "" } = {}): string =>
  `   ${index}: ${local} ${remote || `${"0".repeat(local.indexOf(":"))}:0000`} ${state} 00000000:00000000 00:00000000 00000000  ${uid}        0 ${inode} 1 000000008b33b1a9 100 0 0 10 0`;
const allStates = [1, 2, 7, 8, 10];

interface Seen {
  address: string;
  port: number;
  remote: string;
  remotePort: number;
  state: number;
  userId: number;
  inode: number;
}

function readPath(path: string, states: readonly number[], root = createHostRoot()): { seen: Seen[]; wasRead: boolean } {
  const seen: Seen[] = [];
  const wasRead = readSocketTable(
    root,
    path,
    states,
    (socket) =>
      seen.push({
        address: socket.localAddress(),
        port: socket.localPort,
        remote: socket.remoteAddress(),
        remotePort: socket.remotePort,
        state: socket.state,
        userId: socket.userId,
        inode: socket.inode,
      }),
    createReadTally(),
  );
  return { seen, wasRead };
}

function read(text: string, states: readonly number[] = allStates): Seen[] {
  using tree = createHostTree({ "proc/net/tcp": text });
  return readPath("/proc/net/tcp", states, createHostRoot(tree.root)).seen;
}

describe("readSocketTable()", () => {
  it("reads addresses, ports, state, user and inode of IPv4 and IPv6", () => {
    const text = [
      heading,
      line(0, "0100007F:1F90", "0A", { uid: 33, inode: 4242 }),
      line(12345, "0A01A8C0:D431", "01", { uid: 4_294_967_294, inode: 4_294_967_295, remote: "0200000A:01BB" }),
      line(2, "B80D0120000000000000000001000000:0050", "01", { remote: "B80D0120000000000000000002000000:C001" }),
      line(3, "0000000000000000FFFF00000100000A:0050", "08", { remote: "0000000000000000FFFF00000200000A:C002" }),
      "",
    ].join("\n");
    expect(read(text)).toEqual([
      { address: "127.0.0.1", port: 8080, remote: "0.0.0.0", remotePort: 0, state: 10, userId: 33, inode: 4242 },
      { address: "192.168.1.10", port: 54321, remote: "10.0.0.2", remotePort: 443, state: 1, userId: 4_294_967_294, inode: 4_294_967_295 },
      { address: "2001:db8::1", port: 80, remote: "2001:db8::2", remotePort: 49153, state: 1, userId: 0, inode: 1073 },
      { address: "10.0.0.1", port: 80, remote: "10.0.0.2", remotePort: 49154, state: 8, userId: 0, inode: 1074 },
    ]);
  });

  it("reads the table of UDP, whose lines are a little longer", () => {
    const text =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n" +
      "  512: 3500007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000   101        0 20001 2 0000000000000000 0\n";
    expect(read(text)).toMatchObject([{ address: "127.0.0.53", port: 53, state: 7, userId: 101, inode: 20001 }]);
  });

  it("visits only the wanted states", () => {
    const text = [heading, line(0, "00000000:0016", "0A"), line(1, "0100007F:0016", "06"), line(2, "0100007F:0017", "01")].join("\n");
    expect(read(text, [10, 1]).map((socket) => socket.port)).toEqual([22, 23]);
  });

  it("stops at the first connection when only listeners are wanted: they come first", () => {
    const text = [heading, line(0, "00000000:0016", "0A"), line(1, "0100007F:0016", "01"), line(2, "00000000:0017", "0A"), ""].join("\n");
    expect(read(text, [10]).map((socket) => socket.port)).toEqual([22]);
  });

  it("continues after half-open connections, which old kernels print among the listeners", () => {
    const text = [heading, line(0, "00000000:0016", "0A"), line(1, "00000000:0016", "03"), line(2, "00000000:0017", "0A")].join("\n");
    expect(read(text, [10]).map((socket) => socket.port)).toEqual([22, 23]);
  });

  it("reads lines across chunk boundaries, and an unterminated last line", () => {
    const lines = Array.from({ length: 2000 }, (_, index) =>
      line(index, `00000000:${(index + 1).toString(16).padStart(4, "0").toUpperCase()}`, "0A"),
    );
    expect(read([heading, ...lines].join("\n")).map((socket) => socket.port)).toEqual(
      Array.from({ length: 2000 }, (_, index) => index + 1),
    );
  });

  it("reports a missing table, and tolerates a file without newlines", () => {
    using tree = createHostTree();
    expect(readPath("/proc/net/tcp6", allStates, createHostRoot(tree.root))).toEqual({ seen: [], wasRead: false });
    expect(read("x".repeat(500_000))).toEqual([]);
  });

  it("tolerates malformed input", () => {
    const good = [line(0, "0100007F:1F90", "0A"), line(0, "00000000000000000000000001000000:1F90", "01")];
    for (const text of damagedTexts(good, 16, 1500)) expect(hasSaneNumbers(read(text)), JSON.stringify(text)).toBe(true);
  });

  it.skipIf(!hasCommand("ss"))("agrees with ss(8) about listeners and connections of this machine", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as { port: number };
    const client = connect(port, "127.0.0.1");
    try {
      await once(client, "connect");
      await vi.waitFor(() => {
        const ours = ["tcp", "tcp6"]
          .flatMap((table) => readPath(`/proc/self/net/${table}`, [1, 10]).seen)
          .map((one) => `${one.address}:${one.port} ${one.state === 10 ? "" : `${one.remote}:${one.remotePort}`}`);
        const plain = (text: string): string =>
          text
            .replace(/[[\]]/g, "")
            .replace(/%\w+/, "")
            .replace(/^\*:/, ":::")
            .replace(/^::ffff:(?=\d+\.)/, "");
        const listening = execFileSync("ss", ["-Hltn"], { encoding: "utf8" }).trim().split("\n");
        const established = execFileSync("ss", ["-Htn", "state", "established"], { encoding: "utf8" }).trim().split("\n");
        const expected = [
          ...listening.map((row) => `${plain(row.split(/\s+/)[3]!)} `),
          ...established.map((row) => `${plain(row.trim().split(/\s+/)[2]!)} ${plain(row.trim().split(/\s+/)[3]!)}`),
        ];
        expect(ours.filter((one) => one.includes(`:${port}`)).sort()).toEqual(expected.filter((one) => one.includes(`:${port}`)).sort());
        expect(ours.filter((one) => one.includes(`:${port}`))).toHaveLength(3);
      });
    } finally {
      client.destroy();
      server.close();
    }
  });
});
