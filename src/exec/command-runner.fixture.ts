/** A runner for tests, with modifiable settings and an audit in memory. */

import { randomUUID } from "node:crypto";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach } from "vitest";
import { systemClock } from "../base/clock.ts";
import { createLogger } from "../base/log.ts";
import { processesWithVariable } from "../host/index.ts";
import type { CommandAuditEntry } from "./command-audit.ts";
import { type CommandOrder, CommandRunner, type CommandRunnerOptions } from "./command-runner.ts";
import type { ExecRule, ExecSettings } from "./policy/exec-settings.ts";
import type { CommandEnd } from "./processes/running-command.ts";

export const testSettings: ExecSettings = {
  profile: "full",
  rules: [],
  runAs: undefined,
  timeoutMs: 30_000,
  maxOutputBytes: 4 * 1024 ** 3,
  maxRunning: 16,
  limits: { memoryBytes: 256 * 1024 ** 2, cpus: 2, processes: 128 },
  recordings: { enabled: true, maxSizeBytes: 16 * 1024 ** 2, maxAgeMs: 86_400_000 },
  environmentAllow: ["*"],
  modelHosts: [],
  approvalTimeoutMs: 5_000,
};

export function testRule(rule: Partial<ExecRule> & Pick<ExecRule, "action">): ExecRule {
  return { name: "test", program: [], args: [], user: [], target: [], environment: [], kind: [], runAs: undefined, ...rule };
}

export function testOrder(order: Partial<CommandOrder> = {}): CommandOrder {
  return {
    commandId: randomUUID(),
    kind: "exec",
    argv: [],
    text: "",
    target: { kind: "host", service: "", container: "", pid: 0 },
    workingDirectory: "",
    environment: {},
    timeoutMs: 0,
    maxOutputBytes: 0,
    terminal: undefined,
    caller: { name: "local:uid=0", from: "test", through: "cli", questionId: "" },
    serviceName: "",
    isDetached: false,
    isReadOnly: false,
    ...order,
  };
}

export interface TestRunner extends AsyncDisposable {
  runner: CommandRunner;
  audit: CommandAuditEntry[];
  /** Runs an order to its end, and collects its output. */
  run(order: Partial<CommandOrder>, input?: string): Promise<CommandEnd & { stdout: string; stderr: string; commandId: string }>;
}

export function createTestRunner(
  settings: Partial<ExecSettings>,
  recordingsDirectory: string,
  options: Partial<CommandRunnerOptions> = {},
): TestRunner {
  const audit: CommandAuditEntry[] = [];
  const runner = new CommandRunner({
    settings: () => ({ ...testSettings, ...settings }),
    environment: () => "test",
    audit: {
      write: async (entry) => {
        audit.push(entry);
      },
    },
    pidsOf: async () => [],
    containers: undefined,
    recordingsDirectory,
    clock: systemClock,
    log: createLogger("test", "error", () => undefined),
    ...options,
  });
  return {
    runner,
    audit,
    run: async (change, input) => {
      const order = testOrder(change);
      const { running, ended } = await runner.start(order, new AbortController().signal, () => undefined);
      if (input !== undefined) await running.write(Buffer.from(input));
      running.endInput();
      const parts = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
      for await (const { stream, data } of running.output()) parts[stream].push(Buffer.from(data));
      const end = await ended;
      return {
        ...end,
        commandId: order.commandId,
        stdout: Buffer.concat(parts.stdout).toString(),
        stderr: Buffer.concat(parts.stderr).toString(),
      };
    },
    [Symbol.asyncDispose]: () => runner[Symbol.asyncDispose](),
  };
}

/** The runners of one test, and a directory that commands of every user may write to: closed and removed together. */
class TestRunners implements AsyncDisposable {
  readonly directory: string;
  readonly #made: TestRunner[] = [];

  private constructor(directory: string) {
    this.directory = directory;
  }

  static async open(): Promise<TestRunners> {
    const directory = await mkdtemp(join(tmpdir(), "coral-exec-"));
    await chmod(directory, 0o777);
    return new TestRunners(directory);
  }

  create(settings: Partial<ExecSettings> = {}, options: Partial<CommandRunnerOptions> = {}): TestRunner {
    const runner = createTestRunner(settings, join(this.directory, "recordings"), options);
    this.#made.push(runner);
    return runner;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const runner of this.#made) await runner[Symbol.asyncDispose]();
    await rm(this.directory, { recursive: true });
  }
}

/** Runners for every test of a file, each time in a new directory. */
export function useRunners(): Pick<TestRunners, "create" | "directory"> {
  let runners: TestRunners;
  beforeEach(async () => {
    runners = await TestRunners.open();
  });
  afterEach(() => runners[Symbol.asyncDispose]());
  return {
    create: (...given) => runners.create(...given),
    get directory() {
      return runners.directory;
    },
  };
}

/** For commands without a stop signal or an approval. */
export const never: AbortSignal = new AbortController().signal;
export const noHold = (): void => undefined;

/** Processes of a command that still run. */
export const left = (commandId: string): number[] => processesWithVariable(`CORAL_COMMAND_ID=${commandId}`);
