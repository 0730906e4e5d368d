import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmodSync, copyFileSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { systemClock } from "../../base/clock.ts";
import { silentLogger } from "../../base/log.ts";
import type { AgentDiscoveryConfig } from "../../config/index.ts";
import { createHostReader, type DiscoveryScanner } from "../../host/index.ts";
import { connection, serviceInstance } from "../../store/signals/index.ts";
import { createKernelConnections } from "../connections/kernel-connections.ts";
import { createSocketDumper } from "../connections/socket-dumper.ts";
import { ServiceIdentities } from "../naming/service-identities.ts";
import { createDiscoveryCollector, type DiscoveryCollector, type DiscoveryCollectorOptions } from "./discovery-collector.ts";
import { defaultDiscovery, managedOf, scanOf, socketOf } from "./discovery-scan.fixture.ts";

let directory: string;
const children: ChildProcess[] = [];
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "coral-discovery-"));
});
afterEach(async () => {
  for (const child of children.splice(0)) await end(child);
  rmSync(directory, { recursive: true, force: true });
});

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
}

/** Starts a program that prints one line when it is ready. */
async function start(command: string, ...args: string[]): Promise<{ child: ChildProcess; line: string }> {
  const child = spawn(command, args, { cwd: directory, stdio: ["ignore", "pipe", "inherit"] });
  children.push(child);
  const [line] = (await once(child.stdout!, "data")) as [Buffer];
  return { child, line: line.toString().trim() };
}

function collectorOf(more: Partial<DiscoveryCollectorOptions> = {}): DiscoveryCollector {
  const reader = createHostReader();
  return createDiscoveryCollector({
    scanner: reader.discovery({ dumper: createSocketDumper(() => "auto") }),
    config: () => defaultDiscovery,
    managed: managedOf([]),
    identities: new ServiceIdentities("vm-1"),
    ticksPerS: reader.units.ticksPerS,
    clock: systemClock,
    log: silentLogger,
    ...more,
  });
}

const listenScript = (port = 0): string =>
  `const s = require("node:net").createServer().listen(${port}, "127.0.0.1", () => console.log(s.address().port));`;

describe("createDiscoveryCollector() on this machine", () => {
  it("writes rows of a service, of both ends of a connection with their bytes, and of its close", async () => {
    const server = createServer((socket) => socket.on("data", (bytes) => socket.write(bytes))).listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as { port: number };
    const client = connect(port, "127.0.0.1");
    try {
      client.write("hello");
      await once(client, "data");
      const collector = collectorOf();
      const rows = await collector.sample();
      const [instance] = rows.instances.filter((row) => row.port === port);
      expect(instance).toMatchObject({
        pid: process.pid,
        exe: process.execPath,
        address: "127.0.0.1",
        protocol: "tcp",
        method: "listening_socket",
      });
      // The clocks may differ by a second, and Node counts from its own start.
      expect(Math.abs(instance!.started! / 1_000 - (Date.now() - process.uptime() * 1_000))).toBeLessThan(10_000);
      expect(Object.keys(instance!).sort()).toEqual([...Object.keys(serviceInstance.columns), "at", "mono_ms"].sort());
      const ends = rows.connections.filter((row) => row.server_port === port).sort((a, b) => a.role.localeCompare(b.role));
      expect(ends).toMatchObject([
        {
          role: "client",
          pid: process.pid,
          bytes_sent: 5,
          bytes_received: 5,
          state: "open",
          attribution: "process_fd",
          client_port: client.localPort,
        },
        { role: "server", pid: process.pid, bytes_sent: 5, bytes_received: 5, service: instance!.service, server_address: "127.0.0.1" },
      ]);
      expect(ends[0]!.rtt_us).toBeGreaterThan(0);
      expect(Object.keys(ends[0]!).sort()).toEqual([...Object.keys(connection.columns), "at", "mono_ms"].sort());

      client.destroy();
      await vi.waitFor(async () => {
        const closed = (await collector.sample()).connections.filter((row) => row.server_port === port && row.state === "closed");
        expect(closed.some(({ role }) => role === "client")).toBe(true);
      });
    } finally {
      client.destroy();
      server.close();
    }
  });

  it("reports a restart, an exit and a changed binary", async () => {
    const [program, script] = [join(directory, "shopd"), join(directory, "main.js")];
    copyFileSync(process.execPath, program);
    chmodSync(program, 0o755);
    writeFileSync(script, listenScript());
    const first = await start(program, script);
    const port = Number(first.line);
    // Every scan advances the clock by a minute: short-lived ephemeral ports have no events.
    let nowMs = 0;
    const collector = collectorOf({ clock: { wallMs: () => Date.now(), monotonicMs: () => (nowMs += 60_000) } });
    const serviceAt = async () => (await collector.sample(undefined, true)).instances.find((row) => row.port === port);
    const before = await serviceAt();
    expect(before).toMatchObject({ pid: first.child.pid, exe: program });

    // Replaces the file while the old one runs.
    copyFileSync(process.execPath, `${program}.new`);
    writeFileSync(`${program}.new`, "more", { flag: "a" });
    chmodSync(`${program}.new`, 0o755);
    renameSync(`${program}.new`, program);
    const replaced = (await collector.sample()).events.filter((row) => row.pid === first.child.pid);
    // Files with the same build id are the same build; without one the hash decides, a little later.
    expect(replaced.every(({ kind }) => kind === "binary-updated")).toBe(true);

    await end(first.child);
    writeFileSync(script, listenScript(port));
    const second = await start(program, script);
    const { events } = await collector.sample();
    expect(events.filter(({ kind, pid }) => kind === "service-restarted" && pid === second.child.pid)).toHaveLength(1);
    expect(await serviceAt()).toMatchObject({ pid: second.child.pid, service: before!.service });

    await end(second.child);
    expect((await collector.sample()).events.filter((row) => row.service === before!.service)).toEqual([]);
    expect(collector.nextDelayMs()).toBeLessThan(5_000);
    const gone = (await collector.sample()).events.filter((row) => row.service === before!.service);
    expect(gone).toMatchObject([{ kind: "service-exited", severity: "error", pid: second.child.pid }]);
  });

  it.runIf(spawnSync("gcc", ["--version"]).status === 0)(
    "reports a binary that was replaced under a running service",
    { timeout: 30_000 },
    async () => {
      const source = `#include <stdio.h>\n#include <unistd.h>\n#include <sys/socket.h>\n#include <netinet/in.h>\nint main(void) { struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = 0x0100007f }; socklen_t n = sizeof a; int s = socket(AF_INET, SOCK_STREAM, 0); bind(s, (void *)&a, n); listen(s, 9); getsockname(s, (void *)&a, &n); printf("%d\\n", ntohs(a.sin_port)); fflush(stdout); for (;;) pause(); }\n`;
      writeFileSync(join(directory, "a.c"), source);
      for (const id of ["aaaa0001", "bbbb0002"])
        expect(spawnSync("gcc", [`-Wl,--build-id=0x${id}`, "-w", "-o", join(directory, id), join(directory, "a.c")]).status).toBe(0);
      const program = join(directory, "ledger");
      copyFileSync(join(directory, "aaaa0001"), program);
      const { child, line } = await start(program);
      const collector = collectorOf();
      const { instances } = await collector.sample();
      expect(instances.find((row) => row.port === Number(line))).toMatchObject({
        name: "ledger",
        named_by: "executable",
        build: "aaaa0001",
        build_kind: "build-id",
      });
      renameSync(join(directory, "bbbb0002"), program);
      const { events } = await collector.sample();
      expect(events.filter((row) => row.pid === child.pid)).toMatchObject([
        {
          kind: "binary-updated",
          message: `The program of ledger was replaced on disk: pid ${child.pid} still runs build aaaa0001, the file is build bbbb0002`,
        },
      ]);
    },
  );

  it.runIf(spawnSync("unshare", ["-n", "true"]).status === 0)(
    "tracks connections in another network namespace, with their bytes",
    async () => {
      const script = `const net = require("node:net"); require("node:child_process").execFileSync("ip", ["link", "set", "lo", "up"]);
      net.createServer((s) => s.resume()).listen(6001, "127.0.0.1", () => { const c = net.connect(6001, "127.0.0.1", () => c.write("x".repeat(100), () => console.log("ready"))); });`;
      writeFileSync(join(directory, "inside.js"), script);
      const { child } = await start("unshare", "-n", process.execPath, join(directory, "inside.js"));
      await vi.waitFor(async () => {
        const rows = await collectorOf().sample();
        const ends = rows.connections.filter((row) => row.server_port === 6001 && row.pid === child.pid);
        expect(ends.map(({ role }) => role).sort()).toEqual(["client", "server"]);
        expect(ends.find(({ role }) => role === "client")).toMatchObject({ bytes_sent: 100 });
      });
    },
  );
});

describe("createDiscoveryCollector()", () => {
  const fakeScanner = (
    scan = scanOf({ processes: [{ pid: 5, service: "web" }], listeners: [socketOf("0.0.0.0:80", null, null, { owners: [5] })] }),
  ) => {
    const requests: Parameters<DiscoveryScanner["scan"]>[0][] = [];
    const scanner: DiscoveryScanner = {
      scan: async (request) => {
        requests.push(request);
        return scan;
      },
      hashBuilds: async () => 0,
    };
    return { scanner, requests };
  };
  const clockAt = (state: { nowMs: number }) => ({ monotonicMs: () => state.nowMs, wallMs: () => 1_700_000_000_000 + state.nowMs });

  it("reports all instances at the report interval and on request", async () => {
    const state = { nowMs: 0 };
    const config = { ...defaultDiscovery, scanIntervalMs: 10_000, reportIntervalMs: 60_000 };
    const collector = collectorOf({ scanner: fakeScanner().scanner, clock: clockAt(state), config: () => config });
    const counts: number[] = [];
    for (const [nowMs, reportAll] of [
      [0, false],
      [10_000, false],
      [20_000, true],
      [59_500, false],
      [70_000, false],
    ] as const) {
      state.nowMs = nowMs;
      counts.push((await collector.sample(undefined, reportAll)).instances.length);
    }
    expect(counts).toEqual([1, 0, 1, 1, 0]);
    expect(collector.nextDelayMs()).toBe(10_000);
  });

  it("reports all instances with the scan that finds a new or a missing one", async () => {
    const state = { nowMs: 0 };
    const [web, api] = [80, 81].map((port) => socketOf(`0.0.0.0:${port}`, null, null, { owners: [port] }));
    const processes = [
      { pid: 80, service: "web" },
      { pid: 81, service: "api" },
    ];
    let listeners = [web!];
    const scanner: DiscoveryScanner = { scan: async () => scanOf({ processes, listeners }), hashBuilds: async () => 0 };
    const collector = collectorOf({ scanner, clock: clockAt(state), config: () => defaultDiscovery });
    const counts: number[] = [];
    for (const found of [[web!], [web!, api!], [web!, api!], [api!]]) {
      state.nowMs += 1_000;
      listeners = found;
      counts.push((await collector.sample()).instances.length);
    }
    expect(counts).toEqual([1, 2, 0, 1]);
  });

  it("requests a scan when a process of an instance has exited, three times at once and then every 15 seconds", async () => {
    const state = { nowMs: 0 };
    let isRunning = true;
    const collector = collectorOf({ scanner: fakeScanner().scanner, clock: clockAt(state), isRunning: () => isRunning });
    await collector.sample();
    expect(collector.hasExits()).toBe(false);
    isRunning = false;
    expect([1, 2, 3, 4].map(() => collector.hasExits())).toEqual([true, true, true, false]);
    state.nowMs += 15_000;
    expect(collector.hasExits()).toBe(true);
    await collector.sample();
    expect(collector.hasExits()).toBe(false);
  });

  it("scans for what the config selects", async () => {
    const { scanner, requests } = fakeScanner();
    let config: AgentDiscoveryConfig = {
      ...defaultDiscovery,
      methods: ["listening_sockets"],
      protocols: ["tcp"],
      names: { portMapping: {}, patterns: [{ pattern: "x(.)", name: "$1" }], kubernetesLabel: null },
      redaction: { names: ["codeword"], patterns: ["ACME-\\d+"] },
    };
    const collector = collectorOf({ scanner, config: () => config });
    await collector.sample();
    await collector.sample();
    expect(requests[0]).toMatchObject({
      protocols: ["tcp"],
      connections: false,
      rules: { kubernetesLabel: null, redaction: { names: ["codeword"] } },
    });
    expect(requests[0]!.rules.patterns).toEqual([{ pattern: /x(.)/, name: "$1" }]);
    expect(requests[1]!.rules).toBe(requests[0]!.rules);
    config = { ...defaultDiscovery };
    await collector.sample();
    expect(requests[2]!.rules).not.toBe(requests[0]!.rules);
    expect(requests[2]).toMatchObject({ connections: true });
  });

  it("tracks only registered services when discovery is disabled", async () => {
    const { scanner, requests } = fakeScanner();
    const config = { ...defaultDiscovery, enabled: false };
    expect(await collectorOf({ scanner, config: () => config }).sample()).toEqual({ instances: [], connections: [], events: [] });
    expect(requests).toEqual([]);
    const rows = await collectorOf({ scanner, config: () => config, managed: managedOf([{ name: "shop", port: 80 }]) }).sample();
    expect(rows.instances).toMatchObject([{ service: "web", name: "shop", managed: true }]);
    expect(requests[0]).toMatchObject({ connections: false });
  });

  it("notes what scans could not see, and why the configured backend is not used", async () => {
    const kernel = createKernelConnections({
      isWanted: () => true,
      mark: () => false,
      onEvents: () => undefined,
      onScanWanted: () => undefined,
      clock: systemClock,
      log: silentLogger,
    });
    kernel.lost("no eBPF");
    const collector = collectorOf({ scanner: fakeScanner().scanner, kernel });
    expect(collector.notes()).toEqual([]);
    await collector.sample();
    const missed = "Connections that open and close between two scans (30s) are missed";
    expect(collector.notes()).toContain(`${missed}: no eBPF`);
    expect(collector.kernelConnections()).toEqual([]);
    // Without waiting for the next scan.
    kernel.lost("it was killed");
    expect(collector.notes()).toContain(`${missed}: it was killed`);
  });
});
