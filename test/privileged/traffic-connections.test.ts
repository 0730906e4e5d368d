/** TCP connections as the BPF programs report them: each one once, however short, with its outcome. */

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { readBtfLayout } from "../../src/bpf/index.ts";
import type { ConnectionEvent, ConnectionsReport, PeerConnections } from "../../src/traffic/core/messages.ts";
import { PollTimer } from "../../src/traffic/core/poll-timer.ts";
import { keyLayout, recordLayout, totalsLayout } from "../../src/traffic/kernel/connection-records.ts";
import { type ConnectionWatch, openConnectionWatch } from "../../src/traffic/kernel/connection-watch.ts";
import { bpfSkipReason } from "../support/bpf-skip-reason.ts";
import { waitFor } from "../support/wait-for.ts";

const directory = mkdtempSync(join(tmpdir(), "coral-connections-"));
afterAll(() => rmSync(directory, { recursive: true }));

const why = bpfSkipReason("clang");

const objectPath = join(directory, "connections.bpf.o");
beforeAll(() => {
  if (why !== undefined) return;
  const probes = fileURLToPath(new URL("../../probes", import.meta.url));
  const source = join(probes, "tcp/connections.bpf.c");
  execFileSync("clang", ["-O2", "-g", "-target", "bpf", "-mcpu=v3", `-I${probes}`, "-c", source, "-o", objectPath], { stdio: "pipe" });
});
beforeEach((context) => {
  context.skip(why !== undefined, why);
});

/** Collects the reports about one port and ignores all other connections of this machine. */
class Watched implements AsyncDisposable {
  readonly events: ConnectionEvent[] = [];
  readonly peers: PeerConnections[] = [];
  readonly marks: number[] = [];
  lost = 0;
  readonly #timer = new PollTimer(100);
  #watch: ConnectionWatch | undefined;
  #mark = 0;

  static async open(): Promise<Watched> {
    const watched = new Watched();
    watched.#watch = await openConnectionWatch({
      objectPath,
      timer: watched.#timer,
      flushMs: 100,
      report: (report) => watched.#take(report),
    });
    return watched;
  }

  #take({ events, peers, lost, mark }: ConnectionsReport): void {
    this.events.push(...events);
    this.peers.push(...peers);
    this.lost += lost;
    if (mark !== null) this.marks.push(mark);
  }

  /** Marks a scan like the agent. */
  async scan(between: () => void | Promise<void> = () => undefined): Promise<void> {
    for (const phase of ["begin", "end"] as const) {
      const mark = ++this.#mark;
      this.#watch?.markScan(phase, mark);
      await waitFor("the confirmation of the mark", () => this.marks.includes(mark));
      if (phase === "begin") await between();
    }
  }

  reported(port: number, role: string): ConnectionEvent[] {
    return this.events.filter((event) => event.role === role && (role === "server" ? event.localPort : event.remotePort) === port);
  }

  /** Sums of individual and aggregated reports, without connections that are still open. */
  count(port: number, role: string): Record<string, number> {
    const sum = { connections: 0, failed: 0, refused: 0, reset: 0, timedOut: 0, sent: 0, received: 0 };
    for (const peer of this.peers) {
      if (peer.serverPort !== port || peer.role !== role) continue;
      sum.connections += peer.connections;
      sum.failed += peer.failed;
      sum.refused += peer.refused;
      sum.reset += peer.reset;
      sum.timedOut += peer.timedOut;
      sum.sent += peer.bytesSent;
      sum.received += peer.bytesReceived;
    }
    for (const event of this.reported(port, role)) {
      if (event.kind === "opened") continue;
      sum[event.kind === "failed" ? "failed" : "connections"]++;
      if (event.reason === "refused") sum.refused++;
      if (event.reason === "reset") sum.reset++;
      if (event.reason === "timed-out") sum.timedOut++;
      sum.sent += event.bytesSent;
      sum.received += event.bytesReceived;
    }
    return sum;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#timer[Symbol.dispose]();
    await this.#watch?.[Symbol.asyncDispose]();
  }
}

async function listen(onSocket: (socket: Socket) => void, host = "127.0.0.1"): Promise<{ server: Server; port: number } & AsyncDisposable> {
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    onSocket(socket);
  }).listen(0, host);
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    server,
    port,
    [Symbol.asyncDispose]: async () => {
      server.close();
      await once(server, "close");
    },
  };
}

/** One connection with a request and a response; resolves when it is closed. */
async function call(port: number, host = "127.0.0.1"): Promise<void> {
  const socket = connect(port, host);
  socket.on("error", () => undefined);
  socket.end("ask");
  socket.resume();
  await new Promise((resolve) => socket.once("close", resolve));
}

const perl = (code: string, ...args: string[]) => spawn("perl", ["-MSocket", "-e", code, ...args], { stdio: ["pipe", "pipe", "inherit"] });

describe("the layout of kernel records", () => {
  it("matches the object's BTF", () => {
    const layout = readBtfLayout(objectPath);
    for (const [struct, known] of [
      ["connection_record", recordLayout],
      ["peer_key", keyLayout],
      ["peer_totals", totalsLayout],
    ] as const) {
      const { sizeBytes, ...offsets } = known;
      const found = layout.struct(struct);
      expect(found.sizeBytes).toBe(sizeBytes);
      for (const [name, offset] of Object.entries(offsets)) expect([name, found.fields.get(name)?.offsetBytes]).toEqual([name, offset]);
    }
  });
});

describe("openConnectionWatch()", () => {
  it("counts 2,000 short connections between two scans once, at both ends", async () => {
    await using watched = await Watched.open();
    await using server = await listen((socket) => socket.on("data", () => socket.end("answer!")));
    await watched.scan();
    for (let round = 0; round < 100; round++) await Promise.all(Array.from({ length: 20 }, () => call(server.port)));
    const all = { connections: 2_000, failed: 0, refused: 0, reset: 0, timedOut: 0 };
    await waitFor("all of them", () => watched.count(server.port, "client")["connections"] === 2_000);
    await waitFor("the other ends", () => watched.count(server.port, "server")["connections"] === 2_000);
    await watched.scan();
    expect(watched.count(server.port, "client")).toEqual({ ...all, sent: 6_000, received: 14_000 });
    expect(watched.count(server.port, "server")).toEqual({ ...all, sent: 14_000, received: 6_000 });
    expect(watched.lost).toBe(0);
    // Only the first connection of a new peer is reported individually, with its start.
    expect(watched.reported(server.port, "client").map(({ kind }) => kind)).toEqual(["opened", "closed"]);
    const [opened] = watched.reported(server.port, "client");
    expect(opened).toMatchObject({ pid: process.pid, localAddress: "127.0.0.1", remoteAddress: "127.0.0.1", remotePort: server.port });
    expect(watched.peers.find((peer) => peer.serverPort === server.port && peer.role === "client")).toMatchObject({ pid: process.pid });
  });

  it("reports connections that a scan may have seen individually, with their final byte counts", async () => {
    await using watched = await Watched.open();
    await using server = await listen((socket) => socket.on("data", (data) => socket.write(data)));
    await call0(server.port);
    await watched.scan();
    const old = connect(server.port, "127.0.0.1");
    await once(old, "connect");
    let during: Socket | undefined;
    await watched.scan(async () => {
      during = connect(server.port, "127.0.0.1");
      await once(during, "connect");
    });
    const after = connect(server.port, "127.0.0.1");
    await once(after, "connect");
    old.write("hello");
    await once(old, "data");
    const ports = [old, during!, after].map((socket) => socket.localPort);
    for (const socket of [old, during!, after]) socket.destroy();
    const reported = (): ConnectionEvent[] => watched.reported(server.port, "client").filter(({ kind }) => kind === "closed");
    await waitFor("their ends", () => [ports[0], ports[1]].every((port) => reported().some((event) => event.localPort === port)));
    await waitFor("the third among the sums", () =>
      watched.peers.some((peer) => peer.serverPort === server.port && peer.role === "client"),
    );
    expect(reported().some((event) => event.localPort === ports[2])).toBe(false);
    const [first] = reported().filter((event) => event.localPort === ports[0]);
    expect(first).toMatchObject({ bytesSent: 5, bytesReceived: 5, reason: null });
    expect(first!.rttUs).toBeGreaterThan(0);
    expect(first!.atNs).toBeGreaterThan(first!.startedNs);
    expect(watched.count(server.port, "client")["connections"]).toBe(4);
  });

  it("distinguishes refused attempts from timeouts", async () => {
    await using watched = await Watched.open();
    const { port } = await (async () => {
      await using gone = await listen(() => undefined);
      return gone;
    })();
    for (let attempt = 0; attempt < 5; attempt++) await call(port);
    await waitFor("refusals", () => watched.count(port, "client")["failed"] === 5);
    expect(watched.count(port, "client")).toMatchObject({ connections: 0, failed: 5, refused: 5, timedOut: 0 });
    // With a full accept queue the next attempt gets no reply, and TCP_USER_TIMEOUT (18) ends it.
    const full = perl(
      `$|=1; socket(L,2,1,0); bind(L,sockaddr_in(0,inet_aton("127.0.0.1"))); listen(L,0); my ($p)=sockaddr_in(getsockname(L)); my @c;
       for (1..2) { socket(my $s,2,1,0); fcntl($s,4,2048); connect($s,sockaddr_in($p,inet_aton("127.0.0.1"))); push @c,$s } select(undef,undef,undef,0.2);
       socket(my $t,2,1,0); setsockopt($t,6,18,pack("l",700)); print "$p\\n"; connect($t,sockaddr_in($p,inet_aton("127.0.0.1"))) or print "$!\\n"; <STDIN>`,
    );
    const [line] = (await once(full.stdout, "data")) as [Buffer];
    const silentPort = Number(line.toString());
    await waitFor("the timeout", () => watched.count(silentPort, "client")["timedOut"] === 1);
    expect(watched.count(silentPort, "client")).toMatchObject({ failed: 1, refused: 0, timedOut: 1 });
    const ended = once(full, "exit");
    full.stdin.end();
    await ended;
  });

  it("distinguishes a reset connection from one that was closed", async () => {
    await using watched = await Watched.open();
    await using server = await listen((socket) => socket.on("data", () => socket.resetAndDestroy()));
    await call(server.port);
    await call(server.port);
    await waitFor("two resets", () => watched.count(server.port, "client")["reset"] === 2);
    expect(watched.count(server.port, "client")).toMatchObject({ connections: 2, failed: 0, reset: 2 });
    // For the side that resets, the connection was closed.
    await waitFor("the other ends", () => watched.count(server.port, "server")["connections"] === 2);
    expect(watched.count(server.port, "server")).toMatchObject({ reset: 0 });
  });

  it("supports IPv6 and IPv4-mapped addresses", async () => {
    await using watched = await Watched.open();
    await using server = await listen((socket) => socket.on("data", () => socket.end("yes")), "::");
    await call(server.port, "::1");
    await call(server.port, "127.0.0.1");
    const addresses = (): string[] => watched.reported(server.port, "server").map(({ remoteAddress }) => remoteAddress);
    await waitFor("both", () => new Set(addresses()).size === 2);
    expect([...new Set(addresses())].sort()).toEqual(["127.0.0.1", "::1"]);
    const own = Number(/\[(\d+)\]/.exec(execFileSync("readlink", ["/proc/self/ns/net"], { encoding: "utf8" }))?.[1]);
    expect(new Set(watched.reported(server.port, "server").map(({ networkNamespace }) => networkNamespace))).toEqual(new Set([own]));
  });
});

/** Opens a connection before the first scan, so that the peer is known. */
async function call0(port: number): Promise<void> {
  const socket = connect(port, "127.0.0.1");
  await once(socket, "connect");
  socket.destroy();
  await once(socket, "close");
}
