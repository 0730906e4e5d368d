/** Real database servers for traffic tests, on free ports and in temporary directories. */

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, chownSync, copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { freePort } from "./held-port.ts";
import { waitFor } from "./wait-for.ts";

export interface RunningServer extends AsyncDisposable {
  readonly pid: number;
  readonly port: number;
}

function canConnect(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
    socket.once("connect", () => socket.destroy());
  });
}

class Server implements RunningServer {
  readonly pid: number;
  readonly port: number;
  readonly #child: ChildProcess;
  readonly #directory: string | undefined;

  constructor(child: ChildProcess, port: number, directory?: string) {
    this.#child = child;
    this.pid = child.pid ?? 0;
    this.port = port;
    this.#directory = directory;
  }

  async ready(): Promise<this> {
    await waitFor(`port ${this.port}`, () => canConnect(this.port));
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      const ended = new Promise((resolve) => this.#child.once("close", resolve));
      this.#child.kill("SIGKILL");
      await ended;
    }
    if (this.#directory !== undefined) rmSync(this.#directory, { recursive: true, force: true });
  }
}

function start(file: string, args: readonly string[], port: number, directory?: string): Promise<RunningServer> {
  return new Server(spawn(file, args, { stdio: "ignore" }), port, directory).ready();
}

export async function startRedis(): Promise<RunningServer> {
  const port = await freePort();
  return start("redis-server", ["--port", String(port), "--bind", "127.0.0.1", "--save", ""], port);
}

export async function startMemcached(): Promise<RunningServer> {
  const port = await freePort();
  return start("memcached", ["-p", String(port), "-l", "127.0.0.1", "-u", "nobody", "-U", "0"], port);
}

/** Starts a DNS server that resolves `*.x.test` to 1.2.3.4 and refuses all other names. */
export async function startDnsmasq(): Promise<RunningServer> {
  const port = await freePort();
  const args = ["-k", "-p", String(port), "--no-resolv", "--no-hosts", "--listen-address=127.0.0.1", "--bind-interfaces"];
  return start("dnsmasq", [...args, "--address=/x.test/1.2.3.4", "--conf-file=/dev/null", "--pid-file=", "-u", "nobody"], port);
}

/** Starts MariaDB with user `root` and no password. `isEncrypted`: it also accepts TLS. */
export async function startMariadb(isEncrypted = false): Promise<RunningServer> {
  const port = await freePort();
  const directory = mkdtempSync(join(tmpdir(), "coral-mariadb-"));
  const [uid, gid] = userOf("mysql");
  const data = join(directory, "data");
  mkdirSync(data);
  chmodSync(directory, 0o755);
  chownSync(data, uid, gid);
  const install = ["--no-defaults", `--datadir=${data}`, "--user=mysql", "--auth-root-authentication-method=normal", "--skip-test-db"];
  execFileSync("mariadb-install-db", install, { stdio: "ignore" });
  const args = ["--no-defaults", `--datadir=${data}`, "--user=mysql", `--port=${port}`, "--bind-address=127.0.0.1"];
  if (isEncrypted) {
    const [key, certificate] = [join(directory, "key.pem"), join(directory, "cert.pem")];
    const request = [
      "req",
      "-x509",
      "-newkey",
      "rsa:2048",
      "-nodes",
      "-subj",
      "/CN=localhost",
      "-days",
      "2",
      "-keyout",
      key,
      "-out",
      certificate,
    ];
    execFileSync("openssl", request, { stdio: "ignore" });
    chownSync(key, uid, gid);
    args.push(`--ssl-key=${key}`, `--ssl-cert=${certificate}`);
  }
  return start("mariadbd", [...args, `--socket=${data}/s.sock`, "--innodb-buffer-pool-size=16M", "--skip-name-resolve"], port, directory);
}

/** Starts Postgres with user and database `postgres` and no password. It also accepts TLS if key and certificate are given. */
export async function startPostgres(tls?: { certificate: string; key: string }): Promise<RunningServer> {
  const port = await freePort();
  const directory = mkdtempSync(join(tmpdir(), "coral-postgres-"));
  const [uid, gid] = userOf("postgres");
  const data = join(directory, "data");
  mkdirSync(data);
  chmodSync(directory, 0o755);
  chownSync(data, uid, gid);
  execFileSync("initdb", ["-D", data, "-A", "trust", "-U", "postgres", "--no-sync"], { stdio: "ignore", uid, gid });
  const args = ["-D", data, "-p", String(port), "-k", data, "-c", "fsync=off", "-c", "listen_addresses=127.0.0.1"];
  if (tls !== undefined) {
    for (const [source, name] of [
      [tls.certificate, "server.crt"],
      [tls.key, "server.key"],
    ] as const) {
      copyFileSync(source, join(data, name));
      chownSync(join(data, name), uid, gid);
      chmodSync(join(data, name), 0o600);
    }
    args.push("-c", "ssl=on");
  }
  return new Server(spawn("postgres", args, { stdio: "ignore", uid, gid }), port, directory).ready();
}

/** Starts a fake server that replies in the wire format of a database that is not installed. */
export async function startWireServer(kind: "mongodb" | "kafka"): Promise<RunningServer> {
  const script = fileURLToPath(new URL("./wire-server.mjs", import.meta.url));
  const child = spawn(process.execPath, [script, kind], { stdio: ["pipe", "pipe", "inherit"] });
  const [port] = await once(child.stdout, "data");
  return new Server(child, Number(String(port)));
}

function userOf(name: string): [uid: number, gid: number] {
  const line = readFileSync("/etc/passwd", "utf8")
    .split("\n")
    .find((text) => text.startsWith(`${name}:`));
  const [, , uid, gid] = (line ?? "").split(":");
  return [Number(uid), Number(gid)];
}
