import { type ChildProcess, fork, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { createHostRoot } from "../files/host-root.ts";
import { createHostTree, type TreeEntry } from "../host-tree.fixture.ts";
import { type ListenerScan, scanListeners } from "./listeners.ts";

const scanHere = (): Promise<ListenerScan> => scanListeners(createHostRoot());
const row = (local: string, inode: number, uid = 0): string =>
  `   0: ${local} ${"0".repeat(local.indexOf(":"))}:0000 0A 00000000:00000000 00:00000000 00000000  ${uid}        0 ${inode} 1 0 100 0 0 10 0\n`;
const statOf = (pid: number, name: string, startTicks: number): string =>
  `${pid} (${name}) S 1 42 42 0 -1 4194560 120 0 7 0 250 50 0 0 20 0 12 0 ${startTicks} 104857600 5059 18446744073709551615 1 1\n`;

function processFiles(pid: number, name: string, namespace: number, sockets: number[]): Record<string, TreeEntry> {
  const files: Record<string, TreeEntry> = {
    [`proc/${pid}/stat`]: statOf(pid, name, pid * 10),
    [`proc/${pid}/cgroup`]: "0::/\n",
    [`proc/${pid}/cmdline`]: `/usr/sbin/${name}\0--password\0secret\0`,
    [`proc/${pid}/exe`]: { link: `/usr/sbin/${name}` },
    [`proc/${pid}/ns/net`]: { link: `net:[${namespace}]` },
    [`proc/${pid}/fd/0`]: { link: "/dev/null" },
  };
  for (const [index, inode] of sockets.entries()) files[`proc/${pid}/fd/${index + 3}`] = { link: `socket:[${inode}]` };
  return files;
}

async function listening(server: Server): Promise<number> {
  await once(server, "listening");
  return (server.address() as { port: number }).port;
}

async function end(child: ChildProcess): Promise<void> {
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
}

describe("scanListeners() on a fixture", () => {
  it("finds listeners of all namespaces, and every process of a shared socket", async () => {
    using tree = createHostTree({
      ...processFiles(1, "init", 100, []),
      "proc/1/mountinfo": "",
      "proc/1/net/tcp": `heading\n${row("00000000:0050", 5001)}${row("0100007F:0CEA", 5002, 999)}`,
      "proc/1/net/tcp6": row("00000000000000000000000000000000:0050", 5003),
      ...processFiles(20, "nginx", 100, [5001, 5003, 5001]),
      ...processFiles(21, "nginx", 100, [5001, 5003]),
      ...processFiles(30, "redis-server", 200, [6001]),
      "proc/30/net/tcp": row("00000000:18EB", 6001, 70),
    });
    const scan = await scanListeners(createHostRoot(tree.root));
    const text = scan.listeners.map(
      (one) => `${one.service} ${one.address}:${one.port} pid ${one.pid} ns ${one.networkNamespace} uid ${one.userId}`,
    );
    expect(text.sort()).toEqual([
      "nginx 0.0.0.0:80 pid 20 ns 100 uid 0",
      "nginx 0.0.0.0:80 pid 21 ns 100 uid 0",
      "nginx :::80 pid 20 ns 100 uid 0",
      "nginx :::80 pid 21 ns 100 uid 0",
      "redis 0.0.0.0:6379 pid 30 ns 200 uid 70",
      "unknown-3306 127.0.0.1:3306 pid null ns 100 uid 999",
    ]);
    expect(scan).toMatchObject({ withoutProcess: 1, deniedProcesses: 0, cut: 0 });
    expect(scan.listeners.find((one) => one.pid === 30)).toMatchObject({
      startTicks: 300,
      exe: "/usr/sbin/redis-server",
      cgroup: "/",
      namedBy: "pattern",
    });
    expect(JSON.stringify(scan)).not.toContain("secret");
  });

  it("falls back to another process of a namespace if the first has exited", async () => {
    using tree = createHostTree({
      ...processFiles(1, "init", 100, []),
      "proc/1/mountinfo": "",
      "proc/1/net/tcp": "",
      "proc/30/ns/net": { link: "net:[200]" },
      ...processFiles(31, "app", 200, [6001]),
      "proc/31/net/tcp": row("00000000:1F90", 6001),
    });
    expect((await scanListeners(createHostRoot(tree.root))).listeners).toMatchObject([{ pid: 31, port: 8080 }]);
  });

  it("is empty on an empty host", async () => {
    using tree = createHostTree();
    expect(await scanListeners(createHostRoot(tree.root))).toEqual({
      listeners: [],
      deniedProcesses: 0,
      withoutProcess: 0,
      cut: 0,
    });
  });
});

describe("scanListeners() on this machine", () => {
  it("names a script by its directory, with pid and start time", async () => {
    using tree = createHostTree({
      "pantry/server.js": 'const s = require("node:net").createServer().listen(0, "127.0.0.1", () => console.log(s.address().port));',
    });
    const child = spawn(process.execPath, ["server.js", "--token", "hunter2"], {
      cwd: join(tree.root, "pantry"),
      stdio: ["ignore", "pipe", "inherit"],
    });
    try {
      const [output] = (await once(child.stdout, "data")) as [Buffer];
      const port = Number(output.toString());
      const scan = await scanHere();
      const found = scan.listeners.filter((one) => one.port === port);
      expect(found).toMatchObject([
        { service: "pantry", namedBy: "script", address: "127.0.0.1", pid: child.pid, exe: process.execPath, userId: process.getuid!() },
      ]);
      expect(found[0]!.startTicks).toBeGreaterThan(0);
      expect(JSON.stringify(scan)).not.toContain("hunter2");
    } finally {
      await end(child);
    }
  });

  it("finds both processes that hold one socket", async () => {
    using tree = createHostTree({
      "worker.js":
        'for (let i = 0; i < 40; i++) require("node:fs").openSync("/dev/null");' +
        'process.on("message", (_, server) => { server.on("connection", () => {}); process.send("ready"); });',
    });
    const server = createServer().listen(0, "127.0.0.1");
    const port = await listening(server);
    const child = fork(join(tree.root, "worker.js"), { execArgv: [] });
    const later = spawn(process.execPath, ["-e", 'require("node:net").createServer().listen(0, "127.0.0.1", () => console.log("ready"))']);
    try {
      child.send("server", server);
      await once(child, "message");
      // While the listener of a later process is searched, the worker is read in part: the socket it was handed comes after many files.
      await once(later.stdout, "data");
      const pids = async () => new Set((await scanHere()).listeners.filter((one) => one.port === port).map((one) => one.pid));
      await expect.poll(pids).toEqual(new Set([process.pid, child.pid]));
    } finally {
      await end(child);
      await end(later);
      server.close();
    }
  });

  it("decodes IPv6 addresses", async () => {
    const server = createServer().listen({ port: 0, host: "::1" });
    try {
      const port = await listening(server);
      expect((await scanHere()).listeners.find((one) => one.port === port)).toMatchObject({ address: "::1", pid: process.pid });
    } finally {
      server.close();
    }
  });

  it.runIf(spawnSync("unshare", ["-n", "true"]).status === 0)("scans other network namespaces", async () => {
    using tree = createHostTree({
      "larder/server.js": 'require("node:net").createServer().listen(7777, "0.0.0.0", () => console.log("ready"));',
    });
    const child = spawn("unshare", ["-n", process.execPath, join(tree.root, "larder/server.js")], { stdio: ["ignore", "pipe", "inherit"] });
    try {
      await once(child.stdout, "data");
      await vi.waitFor(async () => {
        const { listeners } = await scanHere();
        const found = listeners.find((one) => one.pid === child.pid);
        expect(found).toMatchObject({ service: "larder", port: 7777, address: "0.0.0.0" });
        const own = listeners.find((one) => one.networkNamespace !== null && one.networkNamespace !== found!.networkNamespace);
        expect(found!.networkNamespace).not.toBe(own?.networkNamespace ?? null);
      });
    } finally {
      await end(child);
    }
  });
});
