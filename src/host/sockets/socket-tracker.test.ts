import { describe, expect, it } from "vitest";
import { type SocketProtocol, type SocketView, socketStates } from "./socket-source.ts";
import { createSocketTracker, type SocketChanges, type SocketTracker, type SocketTrackerOptions } from "./socket-tracker.ts";

/** `10.0.0.1:80` → address and port. */
function endOf(text: string): { address: string; port: number } {
  const at = text.lastIndexOf(":");
  return { address: text.slice(0, at), port: Number(text.slice(at + 1)) };
}

const view = (inode: number, local: string, remote = "0.0.0.0:0", more: Partial<SocketView> = {}): SocketView => ({
  inode,
  state: remote === "0.0.0.0:0" ? socketStates.listen : socketStates.established,
  localPort: endOf(local).port,
  remotePort: endOf(remote).port,
  userId: 7,
  bytesSent: null,
  bytesReceived: null,
  rttUs: null,
  retransmits: null,
  localAddress: () => endOf(local).address,
  remoteAddress: () => endOf(remote).address,
  ...more,
});

type Observation = [socket: SocketView, namespace?: number, protocol?: SocketProtocol];

class Scans {
  readonly tracker: SocketTracker;
  readonly forgotten: number[] = [];
  #number = 0;

  constructor(options?: SocketTrackerOptions) {
    this.tracker = createSocketTracker(options);
  }

  next(...observations: Observation[]): SocketChanges {
    this.tracker.beginScan(++this.#number);
    for (const [socket, namespace = 1, protocol = "tcp"] of observations) this.tracker.observe(socket, protocol, namespace);
    return this.tracker.endScan((socket) => this.forgotten.push(socket.inode));
  }
}

const roles = ({ opened }: SocketChanges): string[] => opened.map(({ inode, role }) => `${inode} ${role}`);

describe("createSocketTracker()", () => {
  it("reports new, kept and closed sockets with their last counters", () => {
    const scans = new Scans();
    const call = (bytesSent: number): Observation => [view(5, "10.0.0.1:40000", "10.0.0.2:443", { bytesSent, rttUs: 9 })];
    expect(roles(scans.next(call(10)))).toEqual(["5 client"]);
    expect(scans.next(call(70))).toMatchObject({ opened: [], closed: [] });
    expect(scans.tracker.connections.get(5)).toMatchObject({ bytesSent: 70, rttUs: 9, sinceScan: 1, lastScan: 2 });
    expect(scans.next().closed).toMatchObject([{ inode: 5, bytesSent: 70, lastScan: 2 }]);
    expect(scans.forgotten).toEqual([5]);
    expect(scans.tracker.connections.size).toBe(0);
  });

  it("keeps counters that a later source does not report", () => {
    const scans = new Scans();
    scans.next([view(5, "10.0.0.1:40000", "10.0.0.2:443", { bytesSent: 10, retransmits: 2 })]);
    scans.next([view(5, "10.0.0.1:40000", "10.0.0.2:443")]);
    expect(scans.tracker.connections.get(5)).toMatchObject({ bytesSent: 10, retransmits: 2 });
  });

  it.each<[name: string, listener: string, local: string, role: string]>([
    ["the same address", "10.0.0.1:80", "10.0.0.1:80", "server"],
    ["all IPv4 addresses", "0.0.0.0:80", "10.0.0.1:80", "server"],
    ["all addresses of both families, for IPv4", ":::80", "10.0.0.1:80", "server"],
    ["all addresses of both families, for IPv6", ":::80", "2001:db8::1:80", "server"],
    ["another address", "127.0.0.1:80", "10.0.0.1:80", "client"],
    ["another port", "0.0.0.0:81", "10.0.0.1:80", "client"],
  ])("assigns the server role to the end of a listener on %s", (_name, listener, local, role) => {
    // The listener may be read after its connection: tables are read one by one.
    const changes = new Scans().next([view(2, local, "10.0.0.9:50000")], [view(1, listener)]);
    expect(roles(changes)).toEqual([`2 ${role}`]);
  });

  it("tracks both ends of a connection on one host", () => {
    const changes = new Scans().next(
      [view(1, "0.0.0.0:80")],
      [view(2, "127.0.0.1:50000", "127.0.0.1:80")],
      [view(3, "127.0.0.1:80", "127.0.0.1:50000")],
    );
    expect(roles(changes)).toEqual(["2 client", "3 server"]);
  });

  it("distinguishes namespaces and protocols", () => {
    const changes = new Scans().next(
      [view(1, "0.0.0.0:80"), 1],
      [view(2, "10.0.0.1:80", "10.0.0.9:50000"), 2],
      [view(3, "10.0.0.1:80", "10.0.0.9:50000", { state: socketStates.established }), 1, "udp"],
    );
    expect(roles(changes)).toEqual(["2 client", "3 client"]);
  });

  it("remembers listeners, and reassigns the port to a client that gets it later", () => {
    const scans = new Scans();
    scans.next([view(1, "0.0.0.0:8080")]);
    expect(roles(scans.next([view(2, "10.0.0.1:8080", "10.0.0.9:50000")]))).toEqual(["2 server"]);
    const changes = scans.next([view(9, "127.0.0.1:5432")], [view(3, "127.0.0.1:8080", "127.0.0.1:5432")]);
    expect(roles(changes)).toEqual(["3 client"]);
  });

  it("treats unconnected UDP sockets as listeners", () => {
    const scans = new Scans();
    const udp = (inode: number, local: string, remote?: string): Observation => [
      view(inode, local, remote, { state: remote ? 1 : 7 }),
      1,
      "udp",
    ];
    expect(roles(scans.next(udp(1, "0.0.0.0:53"), udp(2, "10.0.0.1:53", "10.0.0.9:5000"), udp(3, "10.0.0.1:40000", "8.8.8.8:53")))).toEqual(
      ["2 server", "3 client"],
    );
    expect([...scans.tracker.listeners.keys()]).toEqual([1]);
  });

  it("skips sockets without a process", () => {
    expect(new Scans().next([view(0, "10.0.0.1:80", "10.0.0.9:1")]).opened).toEqual([]);
  });

  it("detects a reused inode", () => {
    const scans = new Scans();
    scans.next([view(5, "10.0.0.1:40000", "10.0.0.2:443")], [view(6, "0.0.0.0:80")]);
    const changes = scans.next([view(5, "10.0.0.1:40001", "10.0.0.2:443")], [view(6, "0.0.0.0:81")]);
    expect(changes.opened).toMatchObject([{ inode: 5, localPort: 40001, sinceScan: 2 }]);
    expect(scans.tracker.listeners.get(6)).toMatchObject({ localPort: 81 });
  });

  it("keeps the sockets of a namespace that could not be read", () => {
    const scans = new Scans();
    scans.next([view(5, "10.0.0.1:40000", "10.0.0.2:443"), 4], [view(6, "0.0.0.0:80"), 4]);
    scans.tracker.beginScan(2);
    scans.tracker.keep(4);
    expect(scans.tracker.endScan(() => undefined).closed).toEqual([]);
    expect(scans.tracker.listeners.size).toBe(1);
  });

  it("counts connections above the limit by address pair", () => {
    const scans = new Scans({ maxConnections: 4 });
    const kept = Array.from({ length: 4 }, (_, index): Observation => [view(90 + index, `10.0.0.1:${30_000 + index}`, "10.0.0.5:22")]);
    const served = Array.from(
      { length: 3 },
      (_, index): Observation => [view(100 + index, "10.0.0.1:80", `10.0.0.9:${50_000 + index}`, { bytesSent: 5, bytesReceived: 1 })],
    );
    const called: Observation = [view(200, "10.0.0.1:40000", "10.0.0.7:443")];
    const { opened, folded, cut } = scans.next([view(1, "0.0.0.0:80")], ...kept, ...served, called);
    expect([opened.length, cut]).toEqual([4, 0]);
    const ends = { networkNamespace: 1, protocol: "tcp", localAddress: "10.0.0.1" };
    expect(folded).toEqual([
      { ...ends, role: "server", localPort: 80, remoteAddress: "10.0.0.9", remotePort: 0, connections: 3, bytesSent: 15, bytesReceived: 3 },
      { ...ends, role: "client", localPort: 0, remoteAddress: "10.0.0.7", remotePort: 443, connections: 1, bytesSent: 0, bytesReceived: 0 },
    ]);
  });

  it("limits listeners and folded connections", () => {
    const scans = new Scans({ maxListeners: 1, maxConnections: 1 });
    const { folded, cut } = scans.next(
      [view(1, "0.0.0.0:80")],
      [view(2, "0.0.0.0:81")],
      [view(3, "10.0.0.1:1", "10.0.0.2:2")],
      [view(4, "10.0.0.1:1", "10.0.0.2:3")],
      [view(5, "10.0.0.1:1", "10.0.0.2:4")],
    );
    expect(scans.tracker.cutListeners).toBe(1);
    expect(folded.reduce((sum, row) => sum + row.connections, 0) + cut).toBe(2);
  });
});
