import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { chmodSync, copyFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it, vi } from "vitest";
import { noExtraRules } from "../../redact/index.ts";
import { createHostRoot } from "../files/host-root.ts";
import { createHostTree, type TreeEntry } from "../host-tree.fixture.ts";
import { createDiscoveryScanner, type DiscoveryRequest, type DiscoveryScan } from "./discovery-scanner.ts";
import type { TrackedSocket } from "./tracked-socket.ts";

const rules = { patterns: [], redaction: noExtraRules, kubernetesLabel: "app" };
const everything: DiscoveryRequest = { protocols: ["tcp", "udp"], connections: true, rules };

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
}

const at = (sockets: ReadonlyMap<number, TrackedSocket>, port: number): TrackedSocket[] =>
  [...sockets.values()].filter((one) => one.localPort === port);
const to = (scan: DiscoveryScan, port: number): TrackedSocket[] => [...scan.connections.values()].filter((one) => one.remotePort === port);

/** Runs the `server.js` of a directory, and waits for its first line. */
async function startScript(
  root: string,
  name: string,
  more: { args?: string[]; env?: NodeJS.ProcessEnv; before?: string[] } = {},
): Promise<{ child: ChildProcess; line: string }> {
  const file = join(root, name, "server.js");
  const [command = process.execPath, ...rest] = [...(more.before ?? []), process.execPath, file, ...(more.args ?? [])];
  const child = spawn(command, rest, { cwd: join(root, name), stdio: ["pipe", "pipe", "inherit"], env: { ...process.env, ...more.env } });
  const [line] = (await once(child.stdout!, "data")) as [Buffer];
  return { child, line: line.toString().trim() };
}

const listenScript = 'const s = require("node:net").createServer().listen(0, "127.0.0.1", () => console.log(s.address().port));';

describe("createDiscoveryScanner() on this machine", () => {
  it("finds both ends of a connection with their processes, and its end", async () => {
    using tree = createHostTree({ "pantry/server.js": listenScript });
    const { child, line } = await startScript(tree.root, "pantry");
    const port = Number(line);
    const scanner = createDiscoveryScanner(createHostRoot());
    let socket: Socket | undefined;
    try {
      const first = await scanner.scan(everything);
      const [listener] = at(first.listeners, port);
      expect(first.ownersOf(listener!)).toEqual([child.pid]);
      expect(first.factsOf(child.pid!)).toMatchObject({
        exe: process.execPath,
        script: "pantry",
        name: { name: "pantry", namedBy: "script" },
      });

      socket = connect(port, "127.0.0.1");
      await once(socket, "connect");
      let scan = first;
      await vi.waitFor(async () => {
        scan = await scanner.scan(everything);
        expect(at(scan.connections, port)).toHaveLength(1);
      });
      const [server] = at(scan.connections, port);
      const [client] = to(scan, port);
      expect([server!.role, client!.role]).toEqual(["server", "client"]);
      expect([scan.ownersOf(server!), scan.ownersOf(client!)]).toEqual([[child.pid], [process.pid]]);
      expect(scan.listenersOf(server!)).toEqual([listener]);

      socket.destroy();
      await vi.waitFor(async () => {
        scan = await scanner.scan(everything);
        expect(scan.closed).toContain(client);
      });
      await end(child);
      await vi.waitFor(async () => {
        scan = await scanner.scan(everything);
        expect(at(scan.listeners, port)).toEqual([]);
      });
      expect(scan.factsOf(child.pid!)).toBeNull();
    } finally {
      socket?.destroy();
      await end(child);
    }
  });

  it("finds UDP sockets and their peers", async () => {
    const server = createSocket("udp4");
    const client = createSocket("udp4");
    try {
      server.bind(0, "127.0.0.1");
      await once(server, "listening");
      const { port } = server.address();
      client.connect(port, "127.0.0.1");
      await once(client, "connect");
      const scan = await createDiscoveryScanner(createHostRoot()).scan(everything);
      expect(at(scan.listeners, port)).toMatchObject([{ protocol: "udp", localAddress: "127.0.0.1" }]);
      expect(to(scan, port)).toMatchObject([{ protocol: "udp", role: "client" }]);
    } finally {
      server.close();
      client.close();
    }
  });

  it("reads only what is requested", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    try {
      const scan = await createDiscoveryScanner(createHostRoot()).scan({ protocols: ["tcp"], connections: false, rules });
      expect(scan.connections.size).toBe(0);
      expect([...scan.listeners.values()].every(({ protocol }) => protocol === "tcp")).toBe(true);
      expect(at(scan.listeners, (server.address() as { port: number }).port)).toHaveLength(1);
    } finally {
      server.close();
    }
  });

  it("finds every worker of a forked server, including those that start later", async () => {
    using tree = createHostTree();
    const file = join(tree.root, "prefork.pl");
    writeFileSync(
      file,
      'use Socket; $|=1; socket(S,PF_INET,SOCK_STREAM,0); bind(S,sockaddr_in(0,INADDR_LOOPBACK)); listen(S,9); sub w { my $p=fork(); if(!$p){ sleep 1000 while 1 } $p } @k=map{w()}1..3; print((sockaddr_in(getsockname(S)))[0]," @k\n"); <STDIN>; push @k,w(); print "$k[-1]\n"; <STDIN>; kill 9,@k;',
    );
    const child = spawn("perl", [file], { stdio: ["pipe", "pipe", "inherit"] });
    try {
      const [output] = (await once(child.stdout, "data")) as [Buffer];
      const [port = 0, ...workers] = output.toString().trim().split(" ").map(Number);
      const scanner = createDiscoveryScanner(createHostRoot());
      const scan = await scanner.scan(everything);
      const [listener] = at(scan.listeners, port);
      expect(scan.ownersOf(listener!)).toEqual([child.pid!, ...workers].sort((a, b) => a - b));
      expect(scan.factsOf(workers[0]!)?.name).toMatchObject({ name: "prefork" });
      child.stdin.write("\n");
      const [more] = (await once(child.stdout, "data")) as [Buffer];
      expect((await scanner.scan(everything)).ownersOf(listener!)).toContain(Number(more.toString()));
    } finally {
      const ended = once(child, "exit");
      child.stdin.end("\n\n");
      await ended;
    }
  });

  it("finds workers that receive their socket long after their start within two scans", { timeout: 30_000 }, async () => {
    // Each line on stdin makes one more of the waiting workers listen.
    const script = `
      const cluster = require("node:cluster"), net = require("node:net");
      cluster.schedulingPolicy = cluster.SCHED_NONE;
      if (cluster.isPrimary) {
        const workers = Array.from({ length: 3 }, () => cluster.fork());
        let online = 0, next = 0;
        for (const worker of workers) {
          worker.once("online", () => ++online === 3 && console.log(workers.map(({ process }) => process.pid).join(" ")));
          worker.on("message", (port) => console.log(port));
        }
        process.stdin.on("data", () => workers[next++].send(0));
        process.stdin.on("end", () => { for (const { process } of workers) process.kill("SIGKILL"); process.exit(); });
      } else process.on("message", (port) => { const s = net.createServer().listen(port, "127.0.0.1", () => process.send(s.address().port)); });`;
    using tree = createHostTree({ "cluster/server.js": script });
    const { child, line } = await startScript(tree.root, "cluster");
    try {
      const workers = line.split(" ").map(Number);
      const scanner = createDiscoveryScanner(createHostRoot());
      await scanner.scan(everything);
      for (const worker of workers) {
        child.stdin!.write("\n");
        const [port] = (await once(child.stdout!, "data")) as [Buffer];
        await scanner.scan(everything);
        const scan = await scanner.scan(everything);
        const [listener] = at(scan.listeners, Number(port.toString()));
        expect(scan.ownersOf(listener!)).toContain(worker);
      }
    } finally {
      const ended = once(child, "exit");
      child.stdin!.end();
      await ended;
    }
  });

  it.runIf(spawnSync("unshare", ["-n", "true"]).status === 0)("scans other network namespaces", async () => {
    const script = 'require("node:net").createServer().listen(7777, "0.0.0.0", () => console.log("ready"));';
    using tree = createHostTree({ "larder/server.js": script });
    const { child } = await startScript(tree.root, "larder", { before: ["unshare", "-n"] });
    try {
      const scan = await createDiscoveryScanner(createHostRoot()).scan(everything);
      const [listener] = at(scan.listeners, 7777).filter((one) => one.networkNamespace !== scan.hostNamespace);
      expect(scan.ownersOf(listener!)).toEqual([child.pid]);
      expect(scan.factsOf(child.pid!)?.entry.networkNamespace).toBe(listener!.networkNamespace);
      expect(scan.addressesIn(listener!.networkNamespace)).toEqual([]);
    } finally {
      await end(child);
    }
  });

  it("never reports secrets or control characters of a hostile process of any size", async () => {
    using tree = createHostTree({ "larder/server.js": listenScript });
    const hostile = [
      "--password",
      "hunter2",
      "--token=s3cr3tvalue",
      "\u001b[2J\u001b]0;owned\u0007",
      "\u202eevil",
      "a\nb",
      ...Array.from({ length: 9 }, () => "x1Y".repeat(37_000)),
    ];
    const env = { DATABASE_URL: "postgres://u:hunter2@db/x", SERVICE_NAME: "ev\u001b[31mil", API_TOKEN: "s3cr3tvalue", PORT: "80" };
    const { child, line } = await startScript(tree.root, "larder", { args: hostile, env });
    try {
      const scan = await createDiscoveryScanner(createHostRoot()).scan(everything);
      const [listener] = at(scan.listeners, Number(line));
      const facts = scan.factsOf(scan.ownersOf(listener!)[0]!)!;
      const text = JSON.stringify(facts);
      expect(text).not.toMatch(/hunter2|s3cr3tvalue/);
      expect(`${facts.commandLine}${facts.environment}${facts.name?.name}`).not.toMatch(/[\p{Cc}\p{Cf}]/u);
      expect(facts.commandLine!.length).toBeLessThanOrEqual(4096);
      expect(facts.commandLine).toContain("--password ***");
      expect(JSON.parse(facts.environment!)).toMatchObject({ PORT: "80" });
      expect(facts.environment).not.toContain("DATABASE_URL");
      expect(facts.name?.name).toBe("evil");
    } finally {
      await end(child);
    }
  });

  it("reports a running process whose executable was replaced, with the new file", async () => {
    using tree = createHostTree({ "bin/.keep": "" });
    const program = join(tree.root, "bin/service");
    copyFileSync("/bin/sleep", program);
    const child = spawn(program, ["1000"], { stdio: "ignore" });
    try {
      await once(child, "spawn");
      const scanner = createDiscoveryScanner(createHostRoot());
      const before = (await scanner.scan(everything)).factsOf(child.pid!)!;
      expect(before).toMatchObject({ exe: program, isExeGone: false });
      copyFileSync("/bin/cat", `${program}.new`);
      renameSync(`${program}.new`, program);
      const scan = await scanner.scan(everything);
      const disk = scan.fileOnDisk(before)!;
      expect(disk.key).not.toBe(before.file!.key);
      await scanner.hashBuilds();
      const fresh = createDiscoveryScanner(createHostRoot());
      const late = await fresh.scan(everything);
      const facts = late.factsOf(child.pid!)!;
      expect(facts).toMatchObject({ exe: program, isExeGone: true });
      expect(late.buildOf(facts)?.id).toBe(scan.buildOf(before)?.id);
      expect(late.fileOnDisk(facts)?.key).toBe(disk.key);
      rmSync(program);
      expect((await fresh.scan(everything)).fileOnDisk(facts)).toBeNull();
    } finally {
      await end(child);
    }
  });

  it("keeps scanning while 2,000 processes start and exit", { timeout: 60_000 }, async () => {
    const storm = spawn("sh", ["-c", "i=0; while [ $i -lt 2000 ]; do /bin/true & i=$((i+1)); done; wait"], { stdio: "ignore" });
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as { port: number };
    const scanner = createDiscoveryScanner(createHostRoot());
    try {
      const over = once(storm, "exit");
      let isOver = false;
      void over.then(() => (isOver = true));
      let scans = 0;
      while (!isOver || scans < 3) {
        const scan = await scanner.scan(everything);
        expect(scan.ownersOf(at(scan.listeners, port)[0]!)).toEqual([process.pid]);
        for (const pid of [process.pid, storm.pid!]) scan.factsOf(pid);
        scans++;
      }
      await over;
    } finally {
      server.close();
      await end(storm);
    }
  });

  it("stops when aborted", async () => {
    await expect(createDiscoveryScanner(createHostRoot()).scan(everything, AbortSignal.abort(new Error("enough")))).rejects.toThrow(
      "enough",
    );
  });

  it.runIf(process.getuid?.() === 0)("reports what it can and cannot read as an unprivileged user", async () => {
    using tree = createHostTree({ "pantry/server.js": listenScript });
    chmodSync(tree.root, 0o755);
    const { child, line } = await startScript(tree.root, "pantry");
    try {
      const bundle = join(tree.root, "scanner.mjs");
      const source = fileURLToPath(new URL("../index.ts", import.meta.url));
      const esbuild = fileURLToPath(new URL("../../../node_modules/.bin/esbuild", import.meta.url));
      execFileSync(esbuild, [
        "--bundle",
        "--platform=node",
        "--format=esm",
        "--target=node20",
        `--outfile=${bundle}`,
        "--log-level=error",
        source,
      ]);
      const script = `
        import { createHostReader } from ${JSON.stringify(bundle)};
        process.setgid(65534); process.setuid(65534);
        const request = { protocols: ["tcp", "udp"], connections: true, rules: { patterns: [], redaction: { names: [], patterns: [] }, kubernetesLabel: "app" } };
        const scanner = createHostReader().discovery();
        await scanner.scan(request);
        const scan = await scanner.scan(request);
        const listener = [...scan.listeners.values()].find((one) => one.localPort === ${line});
        console.log(JSON.stringify({ owners: scan.ownersOf(listener), limits: scan.limits, facts: scan.factsOf(${child.pid})?.exe ?? null }));
      `;
      writeFileSync(join(tree.root, "ask.mjs"), script);
      const answer = JSON.parse(execFileSync(process.execPath, [join(tree.root, "ask.mjs")], { encoding: "utf8" })) as {
        owners: number[];
        facts: string | null;
        limits: DiscoveryScan["limits"];
      };
      expect(answer.owners).toEqual([]);
      expect(answer.facts).toBeNull();
      expect(answer.limits.deniedProcesses).toBeGreaterThan(0);
      expect(answer.limits.listenersWithoutProcess).toBeGreaterThan(0);
    } finally {
      await end(child);
    }
  });
});

describe("createDiscoveryScanner() on a fixture", () => {
  const statOf = (pid: number): string =>
    `${pid} (app) S 1 42 42 0 -1 4194560 120 0 7 0 250 50 0 0 20 0 12 0 ${pid * 10} 104857600 5059 18446744073709551615 1 1 77 0\n`;
  const line = (local: string, remote: string, state: string, inode: number): string =>
    `   0: ${local} ${remote} ${state} 00000000:00000000 00:00000000 00000000  0        0 ${inode} 1 0 100 0 0 10 0\n`;
  const process = (pid: number, sockets: number[]): Record<string, TreeEntry> => ({
    [`proc/${pid}/stat`]: statOf(pid),
    [`proc/${pid}/ns/net`]: { link: "net:[100]" },
    ...Object.fromEntries(sockets.map((inode, index) => [`proc/${pid}/fd/${index + 3}`, { link: `socket:[${inode}]` }])),
  });

  it("keeps going when entries vanish between two reads", async () => {
    using tree = createHostTree({
      ...process(1, []),
      "proc/1/mountinfo": "",
      "proc/1/net/tcp": line("00000000:0050", "00000000:0000", "0A", 500) + line("0100007F:0050", "0100007F:C350", "01", 501),
      ...process(20, [500, 501]),
      ...process(21, [502]),
    });
    const scanner = createDiscoveryScanner(createHostRoot(tree.root));
    const request = { ...everything, protocols: ["tcp"] as const };
    const scan = await scanner.scan(request);
    const [listener] = at(scan.listeners, 80);
    expect(scan.ownersOf(listener!)).toEqual([20]);
    // No command line: the process has exited before its facts are read.
    expect(scan.factsOf(20)).toBeNull();
    rmSync(join(tree.root, "proc/20"), { recursive: true });
    const later = await scanner.scan(request);
    expect(later.ownersOf(listener!)).toEqual([]);
    expect(later.limits).toMatchObject({ listenersWithoutProcess: 1, connectionsWithoutProcess: 1, unreadNamespaces: 0 });
    // The whole table is gone: known sockets are kept until it can be read again.
    rmSync(join(tree.root, "proc/1/net"), { recursive: true });
    expect(await scanner.scan(request)).toMatchObject({ closed: [], limits: { unreadNamespaces: 1 } });
  });

  it("is empty on an empty host", async () => {
    using tree = createHostTree();
    const scan = await createDiscoveryScanner(createHostRoot(tree.root)).scan(everything);
    expect([scan.listeners.size, scan.connections.size, scan.limits.cut]).toEqual([0, 0, 0]);
  });
});
