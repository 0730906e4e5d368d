/**
 * A shop of ten real programs under steady load on loopback: nginx → gateway → catalog + Redis, orders + Postgres, payments → provider;
 * a worker that waits for jobs, and a mailer. Names and ports come from a seed. Independent of Coral.
 */

import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, chownSync, copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, extname, join } from "node:path";
import { createInterface } from "node:readline";
import { until } from "../coral-process.ts";
import { root } from "../report.ts";
import { ControlGroup } from "./control-group.ts";
import { namesOf, portsOf, type Role } from "./live-names.ts";
import { LiveProgram, type ProgramStart } from "./live-program.ts";

const sources = join(root, "bench/lib/live/programs");
const scripts: Partial<Record<Role, string>> = {
  gateway: "gateway.mjs",
  catalog: "catalog.mjs",
  payments: "payments.mjs",
  provider: "provider.mjs",
  load: "load.mjs",
  edge: "edge.mjs",
  resolver: "resolver.mjs",
  orders: "orders.py",
  worker: "worker.py",
  mailer: "mailer.py",
};
const helpers = ["program.mjs", "spans.mjs", "redis.mjs", "program.py"];
/** Programs with their own limits, like containers. */
const limited: ReadonlySet<Role> = new Set(["catalog", "orders", "mailer"]);

/** Programs without callers. */
const withoutTcp: ReadonlySet<Role> = new Set(["worker", "load", "resolver"]);

/** Requests a second at the entry. */
export const entryRates: Readonly<Record<string, number>> = {
  "GET /items/:id": 8,
  "GET /search": 4,
  "POST /orders": 4,
  "GET /orders/:id": 6,
  "GET /reports/daily": 0.5,
  "POST /payments": 4,
  "GET /payments/:id": 4,
};

/** Missing programs without which the world cannot start; undefined if there are none. */
export function missingPrograms(): string | undefined {
  const missing = ["nginx", "redis-server", "postgres", "initdb", "psql", "redis-cli", "python3"].filter(
    (name) => spawnSync("which", [name]).status !== 0,
  );
  return missing.length === 0 ? undefined : `not installed: ${missing.join(", ")}`;
}

/** Optional parts of a world, for further faults. */
export interface WorldExtras {
  /** Directories on separate disks, where the services write and sync. */
  disks?: Partial<Record<"orders" | "payments", string>>;
  /** Payments ask a resolver where their provider is, and reach it through a relay. */
  hasEdge?: boolean;
  /** OTLP endpoint of the instrumented programs; the others send no spans. */
  otlpUrl?: string;
  /** Where it lies, so that a later world of the same seed has the same services; what is there is deleted. */
  directory?: string | undefined;
}

/** Half of the programs send spans, as in most companies. */
const instrumented: ReadonlySet<Role> = new Set(["gateway", "payments"]);

/** Requests that the load generator sent to the entry service. */
export interface EntryCounts {
  atMs: number;
  routes: Record<string, { requests: number; errors: number; ms: number }>;
}

/** Real programs, databases and load on this host. Disposing it stops them. */
export class LiveWorld implements AsyncDisposable {
  readonly directory: string;
  readonly names: Record<Role, string>;
  readonly ports: Record<Role, number>;
  /** Client-side counts per second of the last ten minutes, newest last. */
  readonly seen: EntryCounts[] = [];
  /** Why faults that need control groups are skipped. */
  noGroups: string | undefined;
  readonly #programs = new Map<Role, LiveProgram>();
  readonly #extras: WorldExtras;

  constructor(seed: number, extras: WorldExtras = {}) {
    this.#extras = extras;
    if (extras.directory !== undefined) {
      rmSync(extras.directory, { recursive: true, force: true });
      mkdirSync(extras.directory, { recursive: true });
    }
    this.directory = extras.directory ?? mkdtempSync(join(tmpdir(), "coral-live-"));
    this.names = namesOf(seed);
    this.ports = portsOf(seed);
    chmodSync(this.directory, 0o755);
  }

  program(role: Role): LiveProgram {
    const found = this.#programs.get(role);
    if (!found) throw new Error(`The world has no ${role}`);
    return found;
  }

  async start(): Promise<this> {
    await this.#start("postgres", this.#postgres());
    await until("Postgres answers", 30_000, () => void this.psql("SELECT 1"));
    this.psql(schema);
    await this.#start("redis", this.#redis());
    const edge = this.#extras.hasEdge ? (["resolver", "edge"] as const) : [];
    for (const role of ["provider", ...edge, "payments", "catalog", "mailer", "orders", "worker", "gateway"] as const)
      await this.#start(role, this.#script(role));
    await this.#start("nginx", this.#nginx());
    await this.#start("load", this.#script("load"));
    const { stdout } = this.program("load").child ?? {};
    if (stdout) createInterface({ input: stdout }).on("line", (line) => this.#count(JSON.parse(line) as EntryCounts));
    return this;
  }

  /** Runs SQL in a new session and returns its output. */
  psql(sql: string): string {
    return execFileSync("psql", this.psqlArgs, { input: sql, encoding: "utf8", stdio: ["pipe", "pipe", "pipe"] });
  }

  get psqlArgs(): string[] {
    return ["-X", "-q", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", String(this.ports.postgres), "-U", "postgres"];
  }

  redis(...words: string[]): string {
    return execFileSync("redis-cli", ["-p", String(this.ports.redis), ...words], { encoding: "utf8" });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const program of [...this.#programs.values()].reverse()) await program[Symbol.asyncDispose]();
    rmSync(this.directory, { recursive: true, force: true });
  }

  async #start(role: Role, start: ProgramStart): Promise<void> {
    const group = limited.has(role) ? ControlGroup.make(`coral-live-${process.pid}-${role}`) : null;
    if (typeof group === "string") this.noGroups = group;
    const port = withoutTcp.has(role) ? 0 : this.ports[role];
    const program = new LiveProgram(this.names[role], port, start, typeof group === "string" ? null : group);
    this.#programs.set(role, program);
    await program.start();
  }

  #count(counts: EntryCounts): void {
    this.seen.push(counts);
    if (this.seen.length > 600) this.seen.shift();
  }

  #directoryOf(role: Role): string {
    const directory = join(this.directory, this.names[role]);
    mkdirSync(directory);
    return directory;
  }

  get #env(): NodeJS.ProcessEnv {
    return { PATH: process.env["PATH"], HOME: this.directory, LANG: "C.UTF-8" };
  }

  /** A copy under the service's name: scripts are named after it. */
  #script(role: Role): ProgramStart {
    const source = scripts[role] ?? "";
    const directory = this.#directoryOf(role);
    const file = join(directory, `${this.names[role]}${extname(source)}`);
    copyFileSync(join(sources, source), file);
    for (const helper of helpers) if (extname(helper) === extname(source)) copyFileSync(join(sources, helper), join(directory, helper));
    const env = {
      ...this.#env,
      PORT: String(role === "load" ? this.ports.nginx : this.ports[role]),
      PORTS: JSON.stringify({ ...this.ports, ...(role === "payments" && this.#extras.hasEdge ? { provider: this.ports.edge } : {}) }),
      BEHAVIOUR: join(directory, "behaviour.json"),
      ...(role === "payments" && this.#extras.hasEdge ? { RESOLVER: `127.0.0.1:${this.ports.resolver}` } : {}),
      ...(role === "load" ? { RATES: JSON.stringify(entryRates) } : {}),
      ...(role === "orders" || role === "payments" ? { JOURNAL: this.#extras.disks?.[role] } : {}),
      ...(instrumented.has(role) && this.#extras.otlpUrl !== undefined ? { SPANS: this.#extras.otlpUrl, SERVICE: this.names[role] } : {}),
    };
    return { file: extname(source) === ".py" ? "python3" : process.execPath, args: [basename(file)], directory, env };
  }

  #redis(): ProgramStart {
    const directory = this.#directoryOf("redis");
    const args = [
      "--port",
      String(this.ports.redis),
      "--bind",
      "127.0.0.1",
      "--save",
      "",
      "--dir",
      directory,
      "--enable-debug-command",
      "local",
    ];
    return { file: "redis-server", args, directory, env: this.#env };
  }

  #postgres(): ProgramStart {
    const directory = this.#directoryOf("postgres");
    const user = userOf("postgres");
    const data = join(directory, "data");
    mkdirSync(data);
    chownSync(directory, user.uid, user.gid);
    chownSync(data, user.uid, user.gid);
    execFileSync("initdb", ["-D", data, "-A", "trust", "-U", "postgres", "--no-sync"], { stdio: "ignore", cwd: directory, ...user });
    const settings = ["fsync=off", "listen_addresses=127.0.0.1", "shared_buffers=64MB", "max_parallel_workers_per_gather=0", "jit=off"];
    const args = ["-D", data, "-p", String(this.ports.postgres), "-k", data, ...settings.flatMap((setting) => ["-c", setting])];
    return { file: "postgres", args, directory, env: this.#env, user };
  }

  #nginx(): ProgramStart {
    const directory = this.#directoryOf("nginx");
    writeFileSync(join(directory, "nginx.conf"), this.nginxConfig({}));
    const args = ["-p", directory, "-c", "nginx.conf", "-e", "error.log"];
    return { file: "nginx", args, directory, env: this.#env, endSignal: "SIGTERM" };
  }

  /** With `broken`, that path is forwarded to a port where nothing listens. */
  nginxConfig({ broken }: { broken?: string }): string {
    const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `${name}_temp_path ${name};`).join(" ");
    const forward = `proxy_pass http://gateway; proxy_http_version 1.1; proxy_set_header Connection "";`;
    const wrong = broken === undefined ? "" : `location ${broken} { proxy_pass http://127.0.0.1:9; }`;
    return `daemon off; user root; worker_processes 1; pid nginx.pid;
events { worker_connections 512; }
http { access_log off; keepalive_requests 1000000000; ${temporary}
  upstream gateway { server 127.0.0.1:${this.ports.gateway}; keepalive 32; }
  server { listen 127.0.0.1:${this.ports.nginx}; ${wrong} location / { ${forward} } } }`;
  }
}

/** 400,000 orders of 2,000 users: without its index, a statement reads them all. */
const schema = `CREATE TABLE orders (id bigserial PRIMARY KEY, user_id int NOT NULL, total int NOT NULL);
  INSERT INTO orders (user_id, total) SELECT n % 2000, n % 100 FROM generate_series(1, 400000) n;
  CREATE INDEX orders_user ON orders (user_id);
  CREATE TABLE stock (item int PRIMARY KEY, units int NOT NULL);
  INSERT INTO stock SELECT n, 1000000 FROM generate_series(0, 19) n;
  ANALYZE; ALTER SYSTEM SET lock_timeout = '300ms'; SELECT pg_reload_conf();`;

function userOf(name: string): { uid: number; gid: number } {
  const line = readFileSync("/etc/passwd", "utf8")
    .split("\n")
    .find((text) => text.startsWith(`${name}:`));
  if (line === undefined) throw new Error(`Cannot run ${name}: there is no user "${name}"`);
  const [, , uid, gid] = line.split(":");
  return { uid: Number(uid), gid: Number(gid) };
}
