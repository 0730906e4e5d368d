/** Real servers to put load on: each reports its CPU time and the number of requests served. */

import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, get, type RequestListener } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { createServer as createTcpServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { until } from "./coral-process.ts";
import { cpuNsOf } from "./process-usage.ts";
import { serveParent, Worker } from "./worker.ts";

/** A server in a child process, so that its CPU time can be read separately. */
export interface WebServer extends AsyncDisposable {
  readonly port: number;
  readonly url: string;
  /** Since it started. */
  usage(): Promise<ServerUsage>;
}

export interface ServerUsage {
  answered: number;
  /** Of all its threads. */
  cpuNs: number;
}

/** A free port outside the ephemeral range, as long-running services use. */
export async function freePort(): Promise<number> {
  for (let attempt = 0; ; attempt++) {
    const port = 20_000 + Math.floor(Math.random() * 10_000);
    try {
      const server = createTcpServer().listen({ port, host: "127.0.0.1", exclusive: true });
      await once(server, "listening");
      server.close();
      await once(server, "close");
      return port;
    } catch (error) {
      // In use: try another one.
      if (attempt > 100) throw error;
    }
  }
}

function makeCertificate(directory: string): void {
  const files = ["-keyout", join(directory, "key.pem"), "-out", join(directory, "cert.pem")];
  const kind = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
  execFileSync("openssl", [...kind, "-subj", "/CN=localhost", ...files], { stdio: "ignore" });
}

/** One worker with an empty reply; a second port reports how many were served. */
export async function startNginx({ isTls = false, workers = 1 } = {}): Promise<WebServer> {
  const directory = mkdtempSync(join(tmpdir(), "coral-nginx-"));
  const [port, statusPort] = [await freePort(), await freePort()];
  if (isTls) makeCertificate(directory);
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `${name}_temp_path ${directory}/${name};`).join(" ");
  const tls = isTls ? `ssl_certificate ${directory}/cert.pem; ssl_certificate_key ${directory}/key.pem;` : "";
  const config = `daemon off; master_process ${workers > 1 ? "on" : "off"}; worker_processes ${workers}; pid ${directory}/pid; error_log ${directory}/log;
events { worker_connections 4096; }
http { access_log off; keepalive_requests 1000000000; ${temporary}
  server { listen 127.0.0.1:${port} ${isTls ? "ssl" : ""} ${workers > 1 ? "reuseport" : ""}; ${tls} location / { return 204; } }
  server { listen 127.0.0.1:${statusPort}; location / { stub_status; } } }`;
  writeFileSync(join(directory, "conf"), config);
  const child = spawn("nginx", ["-c", join(directory, "conf"), "-e", join(directory, "log")], { stdio: "ignore" });
  const answered = async (): Promise<number> => Number(/\n\s*\d+ \d+ (\d+)/.exec(await textOf(statusPort))?.[1]);
  await until("nginx answers", 10_000, async () => {
    await answered();
  });
  return {
    port,
    url: `${isTls ? "https" : "http"}://127.0.0.1:${port}/empty`,
    usage: async () => ({ answered: await answered(), cpuNs: cpuNsOf(child.pid ?? 0) }),
    [Symbol.asyncDispose]: async () => {
      const ended = once(child, "exit");
      child.kill("SIGTERM");
      await ended;
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

function textOf(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    get({ host: "127.0.0.1", port, agent: false }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (part: string) => (text += part));
      response.once("end", () => resolve(text)).once("error", reject);
    }).once("error", reject);
  });
}

/** The role of the other process, for the benchmark's main file: see `serveNode`. */
export const nodeRole = "node-server";

/** A Node service that does some work for each request; the benchmark's main file must call `serveNode` in that role. */
export async function startNode({ isTls = false } = {}): Promise<WebServer> {
  const directory = mkdtempSync(join(tmpdir(), "coral-node-"));
  if (isTls) makeCertificate(directory);
  const port = await freePort();
  const worker = new Worker(nodeRole, [String(port), isTls ? directory : ""], []);
  // It replies once it is listening.
  await worker.ask("usage");
  return {
    port,
    url: `${isTls ? "https" : "http"}://127.0.0.1:${port}/work`,
    usage: () => worker.ask<ServerUsage>("usage"),
    [Symbol.asyncDispose]: async () => {
      await worker[Symbol.asyncDispose]();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** Hashing takes tens of microseconds, so that a request takes more than fifty. */
const workBytes = Buffer.alloc(80 * 1024, "coral");

/** `args` are those of the role. */
export async function serveNode([port = "0", directory = ""]: readonly string[]): Promise<void> {
  let answered = 0;
  const listener: RequestListener = (_request, response) => {
    answered++;
    response.end(createHash("sha256").update(workBytes).digest("hex"));
  };
  const file = (name: string): Buffer => readFileSync(join(directory, name));
  const server = directory === "" ? createServer(listener) : createTlsServer({ key: file("key.pem"), cert: file("cert.pem") }, listener);
  server.listen(Number(port), "127.0.0.1");
  await once(server, "listening");
  // Read both at the same time: a millisecond of a busy process exceeds the overhead of the hooks for ten requests.
  await serveParent(() => {
    const { user, system } = process.cpuUsage();
    return Promise.resolve({ answered, cpuNs: (user + system) * 1_000 } satisfies ServerUsage);
  });
  process.exit(0);
}
