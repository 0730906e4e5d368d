/** Real daemons as child processes, for tests that start, kill and restart them. */

import { type ChildProcess, spawn } from "node:child_process";
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { onTestFailed } from "vitest";
import { agentPaths, colonyPaths, listLocalColonies, makePrivateDirectory, writePrivateFile } from "../../src/config/index.ts";
import { requestJson, requestText } from "../../src/transport/index.ts";
import { freePort } from "./held-port.ts";
import { coralFile, coralJson, runCoral } from "./run-coral.ts";
import { cleanEnvironment } from "./test-home.ts";
import { waitFor } from "./wait-for.ts";

/** For one reply, on a busy machine where daemons get a fraction of a processor. */
const answerTimeoutMs = 120_000;

export interface DaemonEnd {
  code: number | null;
  signal: NodeJS.Signals | null;
}

/** One process that a test started, without its children. `await using` ends it with SIGTERM, then SIGKILL. */
export class DaemonProcess implements AsyncDisposable {
  readonly pid: number;
  readonly ended: Promise<DaemonEnd>;
  readonly #child: ChildProcess;
  readonly #name: string;
  #output = "";
  #end: DaemonEnd | undefined;

  constructor(name: string, child: ChildProcess) {
    if (child.pid === undefined) throw new Error(`cannot start ${name}: spawn returned no pid`);
    this.pid = child.pid;
    this.#name = name;
    this.#child = child;
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding("utf8").on("data", (text: string) => {
        this.#output = (this.#output + text).slice(-1_000_000);
      });
    }
    this.ended = new Promise((resolve) => {
      child.once("close", (code, signal) => {
        this.#end = { code, signal };
        resolve(this.#end);
      });
    });
    showLogWhenTestFails(() => this.lastLines());
  }

  /** Stdout and stderr combined; at most the last million characters. */
  get output(): string {
    return this.#output;
  }

  get hasEnded(): boolean {
    return this.#end !== undefined;
  }

  /** For messages of failed tests. */
  lastLines(count = 60): string {
    const state = this.#end ? `ended with ${this.#end.signal ?? `code ${this.#end.code}`}` : `running, pid ${this.pid}`;
    return `--- ${this.#name} (${state}), last lines:\n${this.#output.trimEnd().split("\n").slice(-count).join("\n")}`;
  }

  /** Parsed JSON log lines. */
  logLines(): Record<string, unknown>[] {
    return this.#output.split("\n").flatMap((line) => {
      try {
        return line.startsWith("{") ? [JSON.parse(line) as Record<string, unknown>] : [];
      } catch {
        // The last line may be half-written.
        return [];
      }
    });
  }

  async waitForOutput(pattern: RegExp, timeoutMs?: number): Promise<void> {
    await waitFor(`${this.#name} to print ${pattern}`, () => pattern.test(this.#output), {
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
      details: () => this.lastLines(),
    });
  }

  /** Resolves when the process has ended. */
  async kill(signal: NodeJS.Signals): Promise<DaemonEnd> {
    if (!this.hasEnded) this.#child.kill(signal);
    return this.ended;
  }

  /** Sends SIGTERM, then SIGKILL if the process is still running after `timeoutMs`. */
  async stop(timeoutMs = 60_000): Promise<DaemonEnd> {
    if (this.#end) return this.#end;
    this.#child.kill("SIGTERM");
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), timeoutMs);
    const end = await this.ended;
    clearTimeout(timer);
    return end;
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Current resident memory. */
  rssBytes(): number {
    const kibibytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${this.pid}/status`, "utf8"))?.[1];
    return Number(kibibytes) * 1024;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

/** Does nothing in hooks, which vitest does not let register `onTestFailed`. */
function showLogWhenTestFails(text: () => string): void {
  try {
    onTestFailed(() => {
      process.stderr.write(`${text()}\n`);
    });
  } catch {
    // Called from a hook.
  }
}

/** Starts any program under this Node as a DaemonProcess. */
export function spawnNode(name: string, args: readonly string[], home: string, env: Record<string, string> = {}): DaemonProcess {
  return new DaemonProcess(name, spawn(process.execPath, args, { env: cleanEnvironment(home, env), stdio: ["ignore", "pipe", "pipe"] }));
}

export interface StartColonyOptions {
  home: string;
  /** YAML appended to the config if this call creates the colony, such as `pull:\n  interval: 500ms\n`. */
  config?: string;
  /** Default: a free port outside the ephemeral range. Pass a stopped colony's port to restart it at its known address. */
  port?: number;
  /** host:port to listen on, instead of a port of 127.0.0.1. */
  listen?: string;
  /** Extra arguments of `coral colony start`. */
  args?: readonly string[];
  env?: Record<string, string>;
  /** argv prefix such as `nsenter`; it must exec, so that the pid stays the same. */
  launcher?: readonly string[];
  /** Default true: wait until the colony is ready. */
  waitUntilReady?: boolean;
}

export class ColonyDaemon extends DaemonProcess {
  readonly home: string;
  readonly colonyId: string;
  readonly paths: ReturnType<typeof colonyPaths>;

  constructor(child: ChildProcess, home: string, colonyId: string) {
    super("colony", child);
    this.home = home;
    this.colonyId = colonyId;
    this.paths = colonyPaths(home, colonyId);
  }

  /** `127.0.0.1:43210`, from the pid file. */
  get endpoint(): string {
    const { pid, endpoints } = JSON.parse(readFileSync(this.paths.pidFile, "utf8")) as { pid: number; endpoints: { colony?: string } };
    if (pid !== this.pid || endpoints.colony === undefined) throw new Error("the colony is not listening yet");
    return endpoints.colony.replace("https://", "");
  }

  get port(): number {
    return Number(this.endpoint.split(":").at(-1));
  }

  async waitUntilReady(timeoutMs = 120_000): Promise<void> {
    // The endpoint is written to the pid file shortly after the socket starts to respond.
    await waitUntilAnswers(this, this.paths.socketFile, timeoutMs, () => this.endpoint);
  }

  /** Calls a tool such as `coral_get_status` over the control socket, as the CLI does. */
  async tool<Answer>(name: string, input: Record<string, unknown> = {}): Promise<Answer> {
    return (await requestJson({
      target: { kind: "unix", path: this.paths.socketFile },
      method: "POST",
      path: `/v1/tools/${name}`,
      body: input,
      timeoutMs: answerTimeoutMs,
    })) as Answer;
  }

  /** Rows of a read-only SQL query, as objects by column name. */
  async sql(statement: string, maxRows = 10_000): Promise<Record<string, unknown>[]> {
    const { columns, rows } = await this.tool<{ columns: { name: string }[]; rows: unknown[][] }>("coral_query_sql", {
      sql: statement,
      maxRows,
    });
    return rows.map((row) => Object.fromEntries(columns.map(({ name }, index) => [name, row[index]])));
  }

  async metrics(): Promise<string> {
    return requestText({ target: { kind: "unix", path: this.paths.socketFile }, method: "GET", path: "/metrics" });
  }

  async createJoinToken(uses = 1): Promise<string> {
    const { token } = await coralJson<{ token: string }>(["colony", "token", "create", "--uses", String(uses)], { home: this.home });
    return token;
  }
}

/** Runs `coral init` if the home has no colony yet, then `coral colony start` in the foreground with JSON logs. */
export async function startColony(options: StartColonyOptions): Promise<ColonyDaemon> {
  const { home, config = "", port = await freePort(), listen, args = [], env = {}, launcher = [], waitUntilReady = true } = options;
  let [colonyId] = await listLocalColonies(home);
  if (colonyId === undefined) {
    const { code, stderr } = await runCoral(["init", "test"], { home, env });
    [colonyId] = await listLocalColonies(home);
    if (code !== 0 || colonyId === undefined) throw new Error(`coral init failed: ${stderr}`);
    appendFileSync(colonyPaths(home, colonyId).configFile, config);
  }
  const command = [
    "colony",
    "start",
    ...(listen === undefined ? ["--port", String(port)] : ["--listen", listen]),
    "--log-format",
    "json",
    ...args,
  ];
  const child = spawnCoral(launcher, command, cleanEnvironment(home, env));
  const colony = new ColonyDaemon(child, home, colonyId);
  if (waitUntilReady) await colony.waitUntilReady();
  return colony;
}

export interface StartAgentOptions {
  /** An agent in the colony's own home joins without a token. */
  home: string;
  /** Content of agent.yaml. Default: the existing file, or an empty one. */
  config?: string;
  /** Whether to load the BPF programs that observe requests. Default false: loading costs a second of CPU time, and most tests do not need them. */
  traffic?: boolean;
  /** A join token, needed in a home without a colony. */
  token?: string;
  args?: readonly string[];
  env?: Record<string, string>;
  /** argv prefix such as `nsenter`. */
  launcher?: readonly string[];
  /** Default true: wait until the agent is ready. That does not include its connection to the colony; see `waitUntilConnected`. */
  waitUntilReady?: boolean;
}

export interface AgentStatusReply {
  agentId: string;
  colony: { state: string; lastError?: string };
  store: { epoch: string; rowsBySignal: Record<string, number> };
  losses: { signal: string; reason: string; rows: number }[];
  notes: string[];
}

export class AgentDaemon extends DaemonProcess {
  readonly home: string;
  readonly paths: ReturnType<typeof agentPaths>;

  constructor(child: ChildProcess, home: string) {
    super("agent", child);
    this.home = home;
    this.paths = agentPaths(home);
  }

  get agentId(): string {
    return readFileSync(this.paths.idFile, "utf8").trim();
  }

  async waitUntilReady(timeoutMs = 120_000): Promise<void> {
    await waitUntilAnswers(this, this.paths.socketFile, timeoutMs);
  }

  async status(): Promise<AgentStatusReply> {
    return (await requestJson({
      target: { kind: "unix", path: this.paths.socketFile },
      method: "GET",
      path: "/v1/status",
    })) as AgentStatusReply;
  }

  async waitUntilConnected(timeoutMs = 120_000): Promise<void> {
    await waitFor("the agent to be connected", async () => (await this.status()).colony.state === "connected", {
      timeoutMs,
      details: () => this.lastLines(),
    });
  }
}

/** A section of agent.yaml. */
const withoutTraffic = "\ntraffic:\n  enabled: false\n";
/** One process less per agent; a test that needs profiles writes its own section. */
const withoutProfiles = "\nprofiles:\n  enabled: false\n";

/** Runs `coral agent start` in the foreground with JSON logs, on any free port. */
export async function startAgent(options: StartAgentOptions): Promise<AgentDaemon> {
  const { home, config, traffic = false, token, args = [], env = {}, launcher = [], waitUntilReady = true } = options;
  if (config !== undefined || !existsSync(agentPaths(home).configFile)) {
    const profiles = config?.includes("\nprofiles:") === true ? "" : withoutProfiles;
    await writeAgentConfig(home, `${config ?? ""}${traffic ? "" : withoutTraffic}${profiles}`);
  }
  const environment = cleanEnvironment(home, { ...env, ...(token === undefined ? {} : { CORAL_JOIN_TOKEN: token }) });
  const child = spawnCoral(launcher, ["agent", "start", "--port", "0", "--log-format", "json", ...args], environment);
  const agent = new AgentDaemon(child, home);
  if (waitUntilReady) await agent.waitUntilReady();
  return agent;
}

function spawnCoral(launcher: readonly string[], args: readonly string[], env: Record<string, string>): ChildProcess {
  const [program = "", ...rest] = [...launcher, process.execPath, coralFile, ...args];
  return spawn(program, rest, { env, stdio: ["ignore", "pipe", "pipe"] });
}

async function writeAgentConfig(home: string, config: string): Promise<void> {
  const paths = agentPaths(home);
  await makePrivateDirectory(paths.directory);
  await writePrivateFile(paths.configFile, config);
}

async function waitUntilAnswers(
  daemon: DaemonProcess,
  socketFile: string,
  timeoutMs: number,
  alsoNeeded: () => unknown = () => undefined,
): Promise<void> {
  await waitFor(
    "the daemon to respond",
    async () => {
      if (daemon.hasEnded) return "ended";
      await requestJson({ target: { kind: "unix", path: socketFile }, method: "GET", path: "/readyz", timeoutMs: 10_000 });
      alsoNeeded();
      return "ready";
    },
    { timeoutMs, details: () => daemon.lastLines() },
  );
  if (daemon.hasEnded) throw new Error(`the daemon ended during start-up\n${daemon.lastLines()}`);
}
