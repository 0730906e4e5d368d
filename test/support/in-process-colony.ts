/** The real colony inside the test process, for faults that need a fake clock or misbehaving agents. */

import { mkdirSync, mkdtempSync } from "node:fs";
import { join } from "node:path";
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { HandlerContext } from "@connectrpc/connect";
import { type Clock, systemClock } from "../../src/base/clock.ts";
import { createLogger, type LogRecord } from "../../src/base/log.ts";
import { ResourceStack } from "../../src/base/resource-stack.ts";
import { peerCredentials } from "../../src/bpf/index.ts";
import { type Colony, startColony } from "../../src/colony/index.ts";
import { type ColonyConfig, colonyPaths, loadColonyConfig } from "../../src/config/index.ts";
import { initColony } from "../../src/main/daemon/init-colony.ts";
import { AgentService, type PullRequest, type PullResponseSchema } from "../../src/proto/coral/agent/v1/agent_pb.ts";
import type { ExecuteRequest, ExecuteResponseSchema } from "../../src/proto/coral/agent/v1/commands_pb.ts";
import type { RegisterRequest, RegisterRequestSchema } from "../../src/proto/coral/colony/v1/colony_pb.ts";
import { type Engine, openEngine } from "../../src/store/engine/index.ts";
import {
  createKey,
  type DialledTunnel,
  dialTunnel,
  type Identity,
  joinColony,
  parseToken,
  registerAgent,
  requestJson,
  requestText,
  saveIdentity,
} from "../../src/transport/index.ts";
import { makeTestHome } from "./test-home.ts";

export interface InProcessColonyOptions {
  clock?: Clock;
  /** Changes the loaded config. Durations may be below the limits of the config file. */
  configure?: (config: ColonyConfig) => ColonyConfig;
  /** Further data directories for the shared engine, such as an agent's. */
  dataDirectories?: readonly string[];
  /** An existing home, to restart its colony. */
  home?: string;
}

export class InProcessColony implements AsyncDisposable {
  readonly home: string;
  readonly colonyId: string;
  readonly engine: Engine;
  readonly colony: Colony;
  readonly logs: LogRecord[];
  readonly #stack: ResourceStack;

  private constructor(parts: { home: string; colonyId: string; engine: Engine; colony: Colony; logs: LogRecord[]; stack: ResourceStack }) {
    this.home = parts.home;
    this.colonyId = parts.colonyId;
    this.engine = parts.engine;
    this.colony = parts.colony;
    this.logs = parts.logs;
    this.#stack = parts.stack;
  }

  static async start(options: InProcessColonyOptions = {}): Promise<InProcessColony> {
    const stack = new ResourceStack();
    try {
      const home = options.home ?? stack.use(makeTestHome()).path;
      const colonyId = await colonyIdIn(home);
      const paths = colonyPaths(home, colonyId);
      const logs: LogRecord[] = [];
      const log = createLogger("colony", "debug", (record) => logs.push(record));
      const engine = await openEngine({
        dataDirectories: [paths.dataDirectory, ...(options.dataDirectories ?? [])],
        memoryLimitBytes: 256 * 1024 * 1024,
        threads: 2,
        log,
      });
      stack.defer(() => engine.close());
      const { config } = await loadColonyConfig({ home, colonyId, env: {} });
      const base: ColonyConfig = { ...config, listen: { ...config.listen, port: 0 }, pull: { ...config.pull, intervalMs: 50 } };
      const colony = stack.use(
        await startColony({
          config: options.configure?.(base) ?? base,
          paths,
          engine,
          version: "0.0.0-test",
          owner: undefined,
          peerCredentials,
          portSearch: 0,
          clock: options.clock ?? systemClock,
          log,
        }),
      );
      return new InProcessColony({ home, colonyId, engine, colony, logs, stack });
    } catch (error) {
      await stack[Symbol.asyncDispose]();
      throw error;
    }
  }

  async tool<Answer>(name: string, input: Record<string, unknown> = {}): Promise<Answer> {
    const target = { kind: "unix" as const, path: this.colony.socketFile };
    return (await requestJson({ target, method: "POST", path: `/v1/tools/${name}`, body: input })) as Answer;
  }

  async sql(statement: string): Promise<Record<string, unknown>[]> {
    const { columns, rows } = await this.tool<{ columns: { name: string }[]; rows: unknown[][] }>("coral_query_sql", {
      sql: statement,
      maxRows: 10_000,
    });
    return rows.map((row) => Object.fromEntries(columns.map(({ name }, index) => [name, row[index]])));
  }

  async metric(name: string): Promise<number> {
    const target = { kind: "unix" as const, path: this.colony.socketFile };
    const text = await requestText({ target, method: "GET", path: "/metrics" });
    return Number(new RegExp(`^${name} (\\S+)$`, "m").exec(text)?.[1] ?? Number.NaN);
  }

  /** Joins with a token, as a new agent does. */
  async join(agentId: string): Promise<Identity> {
    const created = await this.colony.tokens.create({ kind: "join", name: "", permission: null, validForMs: 3_600_000, uses: 1 });
    const directory = mkdtempSync(join(this.home, "identity-"));
    mkdirSync(directory, { recursive: true });
    const key = await createKey(directory);
    const { certPem, caPem } = await joinColony({
      token: parseToken(created.token, "join"),
      agentId,
      key,
      signal: new AbortController().signal,
    });
    return saveIdentity(directory, { keyPem: key.keyPem, certPem, caPem });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack[Symbol.asyncDispose]();
  }
}

async function colonyIdIn(home: string): Promise<string> {
  const { listLocalColonies } = await import("../../src/config/index.ts");
  const [known] = await listLocalColonies(home);
  return known ?? (await initColony(home, { app: "test", environment: "dev" })).colonyId;
}

export type PullAnswer = MessageInitShape<typeof PullResponseSchema>;

export type RegistrationChanges = Partial<Omit<RegisterRequest, "$typeName" | "$unknown" | "host" | "capabilities" | "outsideNames">> & {
  host?: { hostname: string; machineId: string; bootId: string; os: string; kernel: string; arch: string };
  capabilities?: { name: string; available: boolean; reason: string }[];
  outsideNames?: { noReverseDns?: boolean; noProviderRanges?: boolean; maxCacheMs?: bigint };
};

export interface ScriptedAgentOptions {
  identity: Identity;
  /** Handles each Pull. */
  pull: (request: PullRequest) => PullAnswer | Promise<PullAnswer>;
  register?: RegistrationChanges;
  epoch?: string;
  /** Handles Execute. Default: the call is unimplemented. */
  execute?: (requests: AsyncIterable<ExecuteRequest>, signal: AbortSignal) => AsyncIterable<MessageInitShape<typeof ExecuteResponseSchema>>;
  /** Awaited before each Hello except the first, to simulate a host that vanished. */
  beforeHello?: () => Promise<void>;
}

/** A scripted agent: it registers and dials like a real one, and replies as the test specifies. */
export class ScriptedAgent implements AsyncDisposable {
  readonly tunnel: DialledTunnel;
  readonly #calls: { pulls: number };

  private constructor(tunnel: DialledTunnel, calls: { pulls: number }) {
    this.tunnel = tunnel;
    this.#calls = calls;
  }

  /** Number of pulls received. */
  get pulls(): number {
    return this.#calls.pulls;
  }

  static async connect({ colony }: InProcessColony, options: ScriptedAgentOptions): Promise<ScriptedAgent> {
    const { identity, epoch = `epoch-of-${options.identity.agentId}` } = options;
    const signal = new AbortController().signal;
    const { endpoint } = colony;
    const registered = await registerAgent({ endpoint, identity, request: registration(identity, epoch, options.register), signal });
    const silent = createLogger("agent", "error", () => undefined);
    const calls = { hellos: 0, pulls: 0 };
    const { execute } = options;
    const tunnel = await dialTunnel({
      endpoint,
      identity,
      colonyId: identity.colonyId,
      signal,
      log: silent,
      routes: (router) => {
        router.service(AgentService, {
          hello: async () => {
            if (calls.hellos++ > 0) await options.beforeHello?.();
            return { agentId: identity.agentId, sessionId: registered.sessionId };
          },
          pull: async (request) => {
            calls.pulls++;
            return await options.pull(request);
          },
          ...(execute
            ? { execute: (requests: AsyncIterable<ExecuteRequest>, context: HandlerContext) => execute(requests, context.signal) }
            : {}),
        });
      },
    });
    return new ScriptedAgent(tunnel, calls);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.tunnel.close("the test is over");
  }
}

/** An agent's registration, with a different host for each agent id. */
export function registration(
  identity: Identity,
  epoch: string,
  changes: RegistrationChanges = {},
): MessageInitShape<typeof RegisterRequestSchema> {
  const { agentId, colonyId } = identity;
  return {
    colonyId,
    agentId,
    protocolVersion: 2,
    version: "0.0.0-test",
    host: { hostname: agentId, machineId: `machine-${agentId}`, bootId: "boot", os: "Linux", kernel: "0", arch: "x64" },
    epoch,
    labels: {},
    capabilities: [],
    wallMs: BigInt(Date.now()),
    ...changes,
  };
}
