import { describe, expect, it } from "vitest";
import { createHostRoot, createReadTally } from "../files/host-root.ts";
import { createPacer } from "../files/pacer.ts";
import { createHostTree, type TreeEntry } from "../host-tree.fixture.ts";
import { countInUse, createSocketReader } from "./socket-reader.ts";
import type { SocketDumper, SocketView } from "./socket-source.ts";

const line = (inode: number): string =>
  `   0: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0        0 ${inode} 1 0 100 0 0 10 0\n`;
const line6 = (inode: number): string =>
  line(inode)
    .replace("0100007F", "0".repeat(32))
    .replace("00000000:0000", `${"0".repeat(32)}:0000`);
const view = (inode: number): SocketView => ({
  inode,
  state: 10,
  localPort: 80,
  remotePort: 0,
  userId: 0,
  bytesSent: null,
  bytesReceived: null,
  rttUs: null,
  retransmits: null,
  localAddress: () => "0.0.0.0",
  remoteAddress: () => "0.0.0.0",
});
const dumperOf = (sockets: number[], requests: unknown[] = []): SocketDumper => ({
  open: (request) => {
    requests.push({ protocol: request.protocol, family: request.family, isOwn: request.namespace === null });
    let left = request.family === 4 ? sockets : [];
    return {
      next: (visit) => {
        for (const inode of left) visit(view(inode));
        left = [];
        return false;
      },
      close: () => undefined,
    };
  },
});
const refusing: SocketDumper = {
  open: () => {
    throw new Error("not permitted");
  },
};

async function read(files: Record<string, TreeEntry>, dumper: SocketDumper | null, { isOwn = true, members = ["/proc/1"] } = {}) {
  using tree = createHostTree({ "proc/1/ns/net": { link: "/dev/null" }, "proc/thread-self/ns/net": { link: "/dev/null" }, ...files });
  const reader = createSocketReader(createHostRoot(tree.root), dumper);
  const found: number[] = [];
  const readAgain = () =>
    reader.read({ members, isOwn }, { protocol: "tcp", states: [10] }, ({ inode }) => found.push(inode), createPacer(), createReadTally());
  return { wasRead: await readAgain(), found, fallback: reader.fallback, readAgain };
}

describe("createSocketReader()", () => {
  it("reads the tables of both families when there is no netlink", async () => {
    expect(await read({ "proc/1/net/tcp": line(1), "proc/1/net/tcp6": line6(2) }, null)).toMatchObject({ wasRead: true, found: [1, 2] });
  });

  it("uses netlink, only for what the namespace has", async () => {
    const requests: unknown[] = [];
    const sockstat = {
      "proc/1/net/sockstat": "sockets: used 9\nTCP: inuse 4 orphan 0\nUDP: inuse 0\n",
      "proc/1/net/sockstat6": "TCP6: inuse 0\n",
    };
    expect(await read(sockstat, dumperOf([7], requests))).toMatchObject({ wasRead: true, found: [7], fallback: null });
    expect(requests).toEqual([{ protocol: "tcp", family: 4, isOwn: true }]);
    expect(await read({}, dumperOf([7], requests), { isOwn: false })).toMatchObject({ wasRead: true, found: [7] });
    expect(requests.slice(1)).toEqual([
      { protocol: "tcp", family: 4, isOwn: false },
      { protocol: "tcp", family: 6, isOwn: false },
    ]);
  });

  it("falls back to the tables if netlink fails, and reports why", async () => {
    const { found, fallback, readAgain } = await read({ "proc/1/net/tcp": line(1) }, refusing);
    expect([found, fallback]).toEqual([[1], "not permitted"]);
    // Netlink is not retried; by now even the tables are gone.
    expect(await readAgain()).toBe(false);
  });

  it("does not use netlink if tables are requested", async () => {
    const dumper = { ...dumperOf([7]), isWanted: () => false };
    expect(await read({ "proc/1/net/tcp": line(1) }, dumper)).toMatchObject({ found: [1] });
  });

  it("tries the next member of a namespace if the first has exited", async () => {
    expect(await read({ "proc/2/net/tcp": line(1) }, null, { isOwn: false, members: ["/proc/9", "/proc/2"] })).toMatchObject({
      wasRead: true,
      found: [1],
    });
    expect(await read({}, null, { members: ["/proc/9"] })).toMatchObject({ wasRead: false, found: [] });
  });
});

describe("countInUse()", () => {
  it("reads the numbers of each protocol and family", () => {
    const text = "TCP: inuse 12 orphan 0 tw 4\nUDP: inuse 3 mem 0\nUDPLITE: inuse 9\nTCP6: inuse 0\n";
    expect([countInUse(text, "tcp", 4), countInUse(text, "udp", 4), countInUse(text, "tcp", 6), countInUse(text, "udp", 6)]).toEqual([
      12,
      3,
      0,
      null,
    ]);
  });
});
