import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { createSockDiag, type SockDiagRequest } from "./sock-diag.ts";
import { SockDiagMessage, type SockDiagView } from "./sock-diag-message.ts";

type Copy = Omit<SockDiagView, "localAddress" | "remoteAddress"> & { local: string; remote: string };

function copyOf(view: SockDiagView): Copy {
  const { inode, state, localPort, remotePort, userId, bytesSent, bytesReceived, rttUs, retransmits } = view;
  const counters = { bytesSent, bytesReceived, rttUs, retransmits };
  return { inode, state, localPort, remotePort, userId, ...counters, local: view.localAddress(), remote: view.remoteAddress() };
}

function dump(request: Partial<SockDiagRequest>): Copy[] {
  const found: Copy[] = [];
  const under = createSockDiag().open({ namespace: null, protocol: "tcp", family: 4, states: [1, 10], ...request });
  while (under.next((socket) => found.push(copyOf(socket))));
  expect(under.next(() => undefined)).toBe(false);
  under.close();
  return found;
}

async function pair(host: string): Promise<{ port: number; client: Socket; served: Socket; close: () => void }> {
  const server = createServer().listen(0, host);
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  const client = connect(port, host);
  const [served] = (await once(server, "connection")) as [Socket];
  const close = (): void => {
    client.destroy();
    served.destroy();
    server.close();
  };
  return { port, client, served, close };
}

const isLinux = process.platform === "linux";
const canEnter = spawnSync("unshare", ["-n", "true"]).status === 0;

describe.runIf(isLinux)("createSockDiag()", () => {
  it("lists listeners, and both ends of a connection with their counters", async () => {
    const { port, client, served, close } = await pair("127.0.0.1");
    try {
      client.write("x".repeat(5_000));
      let received = 0;
      while (received < 5_000) received += ((await once(served, "data")) as [Buffer])[0].length;
      const sockets = dump({});
      expect(sockets.filter((one) => one.state === 10 && one.localPort === port)).toMatchObject([
        { local: "127.0.0.1", remotePort: 0, userId: process.getuid!(), bytesSent: null, rttUs: null },
      ]);
      expect(sockets.filter((one) => one.state === 1 && one.remotePort === port)).toMatchObject([
        { local: "127.0.0.1", remote: "127.0.0.1", localPort: client.localPort, bytesSent: 5_000, bytesReceived: 0, retransmits: 0 },
      ]);
      const [server] = sockets.filter((one) => one.state === 1 && one.localPort === port);
      expect(server).toMatchObject({ remotePort: client.localPort, bytesSent: 0, bytesReceived: 5_000 });
      expect(server!.inode).toBeGreaterThan(0);
      expect(sockets.find((one) => one.remotePort === port)!.rttUs).toBeGreaterThan(0);
    } finally {
      close();
    }
  });

  it("returns IPv4 connections of an IPv6 socket as IPv4, and IPv6 ones unchanged", async () => {
    const server = createServer().listen(0, "::");
    await once(server, "listening");
    const { port } = server.address() as { port: number };
    const clients = [connect(port, "127.0.0.1"), connect(port, "::1")];
    try {
      await Promise.all(clients.map((client) => once(client, "connect")));
      const ends = dump({ family: 6, states: [1] }).filter((one) => one.localPort === port);
      expect(ends.map(({ local, remote }) => `${local} ${remote}`).sort()).toEqual(["127.0.0.1 127.0.0.1", "::1 ::1"]);
    } finally {
      for (const client of clients) client.destroy();
      server.close();
    }
  });

  it("can be closed before it is complete", () => {
    const under = createSockDiag().open({ namespace: null, protocol: "tcp", family: 4, states: [10] });
    under.close();
    under.close();
    expect(under.next(() => undefined)).toBe(false);
  });

  it.runIf(canEnter)("reads another network namespace, and returns to its own", async () => {
    const script = 'require("node:net").createServer().listen(7654, "0.0.0.0", () => console.log("ready"))';
    const child = spawn("unshare", ["-n", process.execPath, "-e", script], { stdio: ["ignore", "pipe", "inherit"] });
    try {
      await once(child.stdout, "data");
      const before = dump({ states: [10] });
      const fd = openSync(`/proc/${child.pid}/ns/net`, "r");
      const ownFd = openSync("/proc/thread-self/ns/net", "r");
      const there = dump({ namespace: { fd, ownFd }, states: [10] });
      closeSync(fd);
      closeSync(ownFd);
      expect(there.map(({ localPort, local }) => `${local}:${localPort}`)).toEqual(["0.0.0.0:7654"]);
      expect(before.some(({ localPort }) => localPort === 7654)).toBe(false);
      expect(dump({ states: [10] }).some(({ localPort }) => localPort === 7654)).toBe(false);
    } finally {
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
    }
  });

  it("rejects a descriptor that is not a namespace", () => {
    const fd = openSync("/dev/null", "r");
    try {
      expect(() => dump({ namespace: { fd, ownFd: fd } })).toThrow(/Cannot enter a network namespace/);
    } finally {
      closeSync(fd);
    }
  });
});

describe("SockDiagMessage", () => {
  /** One message of the kernel as it was received: an established IPv4 connection with struct tcp_info. */
  function message(info: Buffer): Buffer {
    const size = 16 + 72 + 4 + info.length;
    const bytes = Buffer.alloc(size);
    bytes.writeUInt32LE(size, 0);
    bytes.writeUInt16LE(20, 4);
    bytes.writeUInt8(2, 16);
    bytes.writeUInt8(1, 17);
    bytes.writeUInt16BE(8080, 20);
    bytes.writeUInt16BE(40_000, 22);
    bytes.set([10, 0, 0, 1], 24);
    bytes.set([10, 0, 0, 2], 40);
    bytes.writeUInt32LE(33, 80);
    bytes.writeUInt32LE(4_294_967_295, 84);
    bytes.writeUInt16LE(4 + info.length, 88);
    bytes.writeUInt16LE(2, 90);
    info.copy(bytes, 92);
    return bytes;
  }
  const read = (bytes: Buffer): { found: Copy[]; isLast: boolean; errno: number } => {
    const found: Copy[] = [];
    return { found, ...new SockDiagMessage().read(bytes, bytes.length, (socket) => found.push(copyOf(socket))) };
  };

  it("reads the fields of tcp_info that a kernel has", () => {
    const info = Buffer.alloc(232);
    info.writeUInt32LE(1_500, 68);
    info.writeUInt32LE(3, 100);
    info.writeBigUInt64LE(101n, 120);
    info.writeBigUInt64LE(2n ** 40n, 128);
    info.writeBigUInt64LE(500n, 200);
    info.writeBigUInt64LE(20n, 208);
    const base = { inode: 4_294_967_295, state: 1, localPort: 8080, remotePort: 40_000, userId: 33, local: "10.0.0.1", remote: "10.0.0.2" };
    expect(read(message(info)).found).toEqual([{ ...base, bytesSent: 480, bytesReceived: 2 ** 40, rttUs: 1_500, retransmits: 3 }]);
    // Linux 4.1 to 4.18.
    expect(read(message(info.subarray(0, 192))).found).toMatchObject([{ bytesSent: 100, bytesReceived: 2 ** 40 }]);
    // Before Linux 4.1.
    expect(read(message(info.subarray(0, 104))).found).toMatchObject([
      { bytesSent: null, bytesReceived: null, rttUs: 1_500, retransmits: 3 },
    ]);
    expect(read(message(Buffer.alloc(0))).found).toMatchObject([{ bytesSent: null, rttUs: null, retransmits: null }]);
  });

  it("recognises the end and a refusal", () => {
    const end = Buffer.alloc(20);
    end.writeUInt32LE(20, 0);
    end.writeUInt16LE(3, 4);
    expect(read(end)).toEqual({ found: [], isLast: true, errno: 0 });
    const refusal = Buffer.alloc(36);
    refusal.writeUInt32LE(36, 0);
    refusal.writeUInt16LE(2, 4);
    refusal.writeInt32LE(-2, 16);
    expect(read(refusal)).toEqual({ found: [], isLast: true, errno: 2 });
    expect(read(Buffer.alloc(0)).isLast).toBe(true);
  });

  it("survives damaged bytes", () => {
    let state = 7;
    const random = (): number => (state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0) / 2 ** 32;
    const good = Buffer.concat([message(Buffer.alloc(232)), message(Buffer.alloc(16))]);
    for (let round = 0; round < 3_000; round++) {
      const bytes = Buffer.from(good.subarray(0, Math.floor(random() * (good.length + 1))));
      for (let step = 0; step < 4 && bytes.length > 0; step++) bytes[Math.floor(random() * bytes.length)] = Math.floor(random() * 256);
      for (const socket of read(bytes).found) {
        for (const value of [socket.inode, socket.localPort, socket.bytesSent, socket.rttUs])
          expect(value === null || value >= 0).toBe(true);
      }
    }
  });
});
