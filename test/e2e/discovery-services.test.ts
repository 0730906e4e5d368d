/** Discovery of well-known programs on this machine: names, ports, processes and builds. */

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, readFileSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Topology } from "../../src/tools/index.ts";
import { asUserArgv, isRoot, nobody } from "../support/as-user.ts";
import { buildGo } from "../support/build-go.ts";
import { hasProgram } from "../support/has-program.ts";
import { freePort } from "../support/held-port.ts";
import { runCoral } from "../support/run-coral.ts";
import { uniqueName } from "../support/unique-name.ts";
import { waitFor } from "../support/wait-for.ts";
import { childrenOf, WatchedHost } from "../support/watched-host.ts";

const tcpProgram = fileURLToPath(new URL("../support/tcp-program.mjs", import.meta.url));
const node = process.execPath;

let host: WatchedHost;
let parent: string;
/** A new directory with each test. */
let directory: string;
beforeAll(async () => {
  parent = mkdtempSync(join(tmpdir(), "coral-services-"));
  chmodSync(parent, 0o755);
  host = await WatchedHost.start();
});
afterAll(async () => {
  await host?.[Symbol.asyncDispose]();
  rmSync(parent, { recursive: true, force: true });
});
beforeEach(() => {
  directory = mkdtempSync(join(parent, "try-"));
  chmodSync(directory, 0o755);
});

function script(name: string, text?: string): string {
  const file = join(directory, name);
  if (text === undefined) copyFileSync(tcpProgram, file);
  else writeFileSync(file, text);
  return file;
}

const sha256 = (content: string | Buffer): string => createHash("sha256").update(content).digest("hex");

/** The build of a running program, found independently of the agent: of its script, else its build-id. */
function trueBuild(pid: number, command: readonly string[]): string {
  const file = command.find((arg) => arg.startsWith(directory) && /\.(?:[cm]?js|py|rb|pl|php|jar)$/.test(arg));
  if (file !== undefined) {
    const bytes = readFileSync(file);
    return sha256(`content ${sha256(Buffer.concat([Buffer.from(`${bytes.length}\n`), bytes]))}`);
  }
  const exe = `/proc/${pid}/exe`;
  if (hasProgram("readelf")) {
    const id = /Build ID: ([0-9a-f]+)/.exec(
      execFileSync("readelf", ["-n", exe], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }),
    )?.[1];
    if (id !== undefined) return id;
  }
  return sha256(readFileSync(exe));
}

/** The name, or the name with a qualifier: other tests may run the same program on this machine. */
const labelOf = (name: string): RegExp => new RegExp(`^${name.replaceAll(".", "\\.")}(?:$|:\\d+$| \\()`);

interface Sample {
  /** The expected service name. */
  name: string;
  namedBy: string;
  confidence: number;
  needs?: string;
  /** Minimum number of processes. Default 1. */
  instances?: number;
  env?: Record<string, string>;
  /** Name of its working directory, which is created. */
  directory?: string;
  command: (port: number) => string[];
}

const perlServer = `use IO::Socket::INET;
my $s = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => $ARGV[0], Listen => 5) or die; while (my $c = $s->accept) { close $c }`;

const samples: Record<string, Sample> = {
  "a Node script": {
    name: "invoices",
    namedBy: "script",
    confidence: 0.8,
    command: (port) => [node, script("invoices.mjs"), "listen", "127.0.0.1", `${port}`],
  },
  "a Node script with an OpenTelemetry name": {
    name: "checkout",
    namedBy: "environment",
    confidence: 0.92,
    env: { OTEL_SERVICE_NAME: "checkout" },
    command: (port) => [node, script("main.mjs"), "listen", "127.0.0.1", `${port}`],
  },
  "a Node cluster": {
    name: "fleet",
    namedBy: "script",
    confidence: 0.8,
    command: (port) => [
      node,
      script(
        "fleet.cjs",
        `const cluster = require("node:cluster");
         if (cluster.isPrimary) for (let i = 0; i < 2; i++) cluster.fork();
         else require("node:http").createServer((q, r) => r.end()).listen(${port}, "127.0.0.1");`,
      ),
    ],
  },
  // A file server is not named after the directory that it serves.
  "a Python module": {
    name: "http.server",
    directory: "handbook",
    namedBy: "script",
    confidence: 0.8,
    needs: "python3",
    command: (port) => ["python3", "-m", "http.server", `${port}`, "--bind", "127.0.0.1"],
  },
  "a Python server of forked workers": {
    name: "ingest",
    namedBy: "script",
    confidence: 0.8,
    instances: 3,
    needs: "python3",
    command: (port) => [
      "python3",
      script(
        "ingest.py",
        `import os, signal, socket, sys
s = socket.create_server(("127.0.0.1", int(sys.argv[1])))
for _ in range(2):
    if os.fork() == 0: break
while True: s.accept()[0].close()`,
      ),
      `${port}`,
    ],
  },
  "a Perl script": {
    name: "mailer",
    namedBy: "script",
    confidence: 0.8,
    needs: "perl",
    command: (port) => ["perl", script("mailer.pl", perlServer), `${port}`],
  },
  Redis: {
    name: "redis",
    namedBy: "pattern",
    confidence: 0.8,
    needs: "redis-server",
    command: (port) => ["redis-server", "--port", `${port}`, "--bind", "127.0.0.1", "--save", "", "--daemonize", "no"],
  },
  nginx: {
    name: "nginx",
    namedBy: "pattern",
    confidence: 0.8,
    instances: 3,
    needs: "nginx",
    command: (port) => {
      const text = `worker_processes 2; pid ${directory}/nginx.pid; daemon off; ${isRoot ? "user root;" : ""}
        events { worker_connections 64; }
        http { access_log off; server { listen 127.0.0.1:${port}; } }`;
      return ["nginx", "-c", script("nginx.conf", text), "-e", "stderr"];
    },
  },
  PostgreSQL: {
    name: "postgres",
    namedBy: "pattern",
    confidence: 0.8,
    needs: "initdb",
    command: (port) => {
      const data = join(directory, "postgres");
      mkdirSync(data, { mode: 0o777 });
      chmodSync(data, 0o777);
      const prefix = isRoot ? asUserArgv(nobody) : [];
      const [program, ...args] = [...prefix, "initdb", "--no-sync", "-A", "trust", "-U", "postgres", "-D", `${data}/data`];
      execFileSync(program, args, { stdio: "ignore" });
      return [...prefix, "postgres", "-D", `${data}/data`, "-p", `${port}`, "-h", "127.0.0.1", "-k", data, "-c", "fsync=off"];
    },
  },
  "a Go program": {
    name: "gopher",
    namedBy: "executable",
    confidence: 0.7,
    needs: "go",
    command: (port) => {
      const source = script(
        "gopher.go",
        `package main\nimport ("net"; "os")\nfunc main() { l, _ := net.Listen("tcp", "127.0.0.1:" + os.Args[1]); for { c, _ := l.Accept(); c.Close() } }\n`,
      );
      buildGo(directory, ["-o", "gopher", source]);
      return [join(directory, "gopher"), `${port}`];
    },
  },
};

describe("a service that is not configured", () => {
  it.for(Object.keys(samples))("%s has its name, port, processes and build", async (title, context) => {
    const sample = samples[title];
    if (!sample) throw new Error(`no sample ${title}`);
    if (sample.needs !== undefined) context.skip(!hasProgram(sample.needs), `needs ${sample.needs}`);
    const port = await freePort();
    const cwd = join(directory, sample.directory ?? ".");
    mkdirSync(cwd, { recursive: true });
    const command = sample.command(port);
    const program = host.spawn(command, { cwd, ...(sample.env ? { env: sample.env } : {}) });
    const found = await host.waitForProcess(port, program.pid);
    expect(found.service).toMatchObject({
      service: expect.stringMatching(labelOf(sample.name)),
      status: "discovered",
      method: "listening_socket",
      namedBy: sample.namedBy,
      confidence: expect.closeTo(sample.confidence, 5),
      ports: expect.arrayContaining([{ port, protocol: "tcp" }]),
      ingress: false,
    });
    expect(found.exe).toBe(readlinkSync(`/proc/${program.pid}/exe`));
    expect(found.build).toBe(trueBuild(program.pid, command));
    expect(found.listens).toContain(`tcp 127.0.0.1:${port}`);
    const { instances = 1 } = sample;
    if (instances > 1) await waitForWorkers(port, program.pid, instances);
    // One port, one service: workers are not separate services.
    let names: string[] = [];
    await waitFor(
      `${sample.name} to be the only name at its port`,
      async () => {
        names = (await host.servicesAt(port)).map((service) => service.service);
        return names.length === 1 && labelOf(sample.name).test(names[0] ?? "");
      },
      { intervalMs: 300, details: () => names.join(" ") },
    );
  });

  async function waitForWorkers(port: number, pid: number, instances: number): Promise<void> {
    await waitFor(
      `${instances} instances`,
      async () => {
        const pids = (await host.servicesAt(port))[0]?.agents[0]?.pids ?? [];
        return pids.length >= instances && [pid, ...childrenOf(pid)].filter((one) => pids.includes(one)).length >= instances;
      },
      { intervalMs: 300, details: () => `${pid}: ${childrenOf(pid).join(" ")}` },
    );
  }
});

describe("dependencies of a service", () => {
  it("are reported across several hops", async () => {
    const [apiPort, storePort] = [await freePort(), await freePort()];
    const [front, api, store] = [uniqueName("front"), uniqueName("api"), uniqueName("store")];
    host.spawn([node, script(`${store}.mjs`), "listen", "127.0.0.1", `${storePort}`]);
    host.spawn([node, script(`${api}.mjs`), "listen", "127.0.0.1", `${apiPort}`, "call", "127.0.0.1", `${storePort}`]);
    host.spawn([node, script(`${front}.mjs`), "call", "127.0.0.1", `${apiPort}`]);
    const wanted = { service: store, direction: "dependents" };
    const { nodes, edges } = await waitFor(
      "both callers",
      async () => {
        const found = await host.colony.tool<Topology>("coral_get_topology", wanted);
        return found.edges.length === 2 && found.edges.every((edge) => edge.confidence === 0.9) && found;
      },
      { intervalMs: 300 },
    );
    expect(nodes.map(({ name, relation, distance }) => ({ name, relation, distance }))).toEqual([
      { name: store, relation: "asked", distance: 0 },
      { name: api, relation: "dependent", distance: 1 },
      { name: front, relation: "dependent", distance: 2 },
    ]);
    expect(edges.map((edge) => `${edge.from} ${edge.to} ${edge.port}`).sort()).toEqual([
      `service:${api} service:${store} ${storePort}`,
      `service:${front} service:${api} ${apiPort}`,
    ]);
    const dot = (await runCoral(["network", "topology", "--service", store, "-o", "dot"], { home: host.home.path })).stdout;
    expect(dot).toMatch(/^digraph "topology" \{\n(?: {2}.*;\n)+\}\n$/);
    expect(dot).toContain(`"service:${front}" -> "service:${api}"`);
  });
});

describe("coral connect", () => {
  it("replaces the discovered name", async () => {
    const port = await freePort();
    const program = host.spawn([node, script("nameless.mjs"), "listen", "127.0.0.1", `${port}`]);
    await host.waitForProcess(port, program.pid);
    const { stdout } = await runCoral(["connect", `till:${port}`], { home: host.home.path });
    expect(stdout).toMatch(/^✓ Service 'till' promoted to managed\n {2}Previously discovered via: listening_socket/);
    await waitFor("the new name", async () => (await host.servicesAt(port)).some((service) => service.service === "till"));
    const [till, ...others] = await host.servicesAt(port);
    expect(others).toEqual([]);
    expect(till).toMatchObject({ service: "till", status: "managed", method: "manual", previousMethod: "listening_socket", confidence: 1 });
    expect((await host.waitForEvent("service-promoted", "till")).details).toMatchObject({ previousName: "nameless" });
  });
});
