/** The kernel hooks and the request pipeline behind them, in this process, which is not traced itself. */

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fineLayout, mergeHistograms, percentileNs } from "../../src/base/latency-histogram.ts";
import { silentLogger } from "../../src/base/log.ts";
import type { LossKind, RequestGroup, TrafficRole, TrafficSettings } from "../../src/traffic/core/messages.ts";
import { type KernelHooks, openKernelHooks } from "../../src/traffic/kernel/kernel-hooks.ts";
import { createProbePlanner } from "../../src/traffic/tls/probe-planner.ts";
import { createTlsProbes, type TlsProbes } from "../../src/traffic/tls/tls-probes.ts";
import { type OpenedParts, openTrafficParts } from "../../src/traffic/traffic-parts.ts";
import type { WindowDraft } from "../../src/traffic/traffic-runtime.ts";
import { root } from "./report.ts";

/** Overrides the bundled BPF object, to try out a change of the programs. */
const objectPath = process.env["CORAL_BENCH_OBJECT"] ?? join(root, "dist/probes/requests.bpf.o");

const settings: TrafficSettings = {
  windowMs: 10_000,
  maxRequestKinds: 4_096,
  maxConnections: 65_536,
  maxRoutesPerService: 200,
  ringBytes: 4 << 20,
  tls: { isEnabled: false, excludedExecutables: [] },
  cpuBudget: 1,
};

/** Skips the benchmark with a message where BPF programs cannot be loaded. */
export function bpfProblem(): string | undefined {
  if (process.getuid?.() !== 0) return "needs root";
  return existsSync(objectPath) ? undefined : "the BPF objects are not built (no clang)";
}

/** Ends the benchmark where hooks cannot be loaded. */
export function requireBpf(): void {
  const problem = bpfProblem();
  if (problem === undefined) return;
  process.stdout.write(`  skipped: ${problem}\n`);
  process.exit(0);
}

/** Other traffic processes on this host: their hooks stay attached while the benchmark's are detached, which distorts the ratios. */
export function otherWatchers(): string[] {
  const found = readdirSync("/proc").filter((entry) => /^\d+$/.test(entry) && isTrafficProcess(entry));
  return found.length === 0 ? [] : [`${found.length} other traffic processes ran at the end: stop their agents for meaningful figures`];
}

function isTrafficProcess(pid: string): boolean {
  try {
    return /traffic-process\.js\0/.test(readFileSync(`/proc/${pid}/cmdline`, "latin1"));
  } catch {
    // It has exited meanwhile.
    return false;
  }
}

/** Run time of one BPF program, as the kernel counts it. */
export interface ProgramTime {
  name: string;
  runNs: number;
  runs: number;
}

/** The hooks and the decoding in this process, without an agent and its store. */
export class RequestWatch implements AsyncDisposable {
  readonly losses = new Map<LossKind, number>();
  readonly hooks: KernelHooks;
  readonly #parts: OpenedParts;
  readonly #tls: TlsProbes | null;
  readonly #timer: NodeJS.Timeout;
  #requests: RequestGroup[] = [];

  private constructor(hooks: KernelHooks, parts: OpenedParts, tls: TlsProbes | null) {
    this.hooks = hooks;
    this.#parts = parts;
    this.#tls = tls;
    const ring = hooks.object.ring("events");
    this.#timer = setInterval(() => ring.drain(this.#parts.onRecord), 50);
  }

  /** Nothing is attached yet. */
  static async open(kind: KernelHooks["kind"], withTls = false): Promise<RequestWatch> {
    const tlsSettings = { isEnabled: withTls, excludedExecutables: [] };
    const own = { ...settings, tls: tlsSettings };
    const hooks = await openKernelHooks({ settings: own, ownPids: [], kinds: [kind], objectPath });
    await hooks.detach();
    // Plaintext probes are attached and detached here, so the pipeline gets none.
    const parts = openTrafficParts({
      hooks: { ...asPlain(hooks), plaintextProblem: "attached separately" },
      settings: own,
      report: () => undefined,
      log: silentLogger,
    });
    const planner = createProbePlanner({ childPath: join(root, "dist/tls-plan-child.js") });
    const tls = withTls ? createTlsProbes({ object: hooks.object, settings: tlsSettings, planner }) : null;
    return new RequestWatch(hooks, parts, tls);
  }

  async attach(): Promise<void> {
    this.hooks.attach();
    this.#tls?.setPaused(false);
    await this.#tls?.refresh();
  }

  async detach(): Promise<void> {
    await this.hooks.detach();
    this.#tls?.setPaused(true);
    await this.#tls?.refresh();
  }

  /** Plaintext links attached now. */
  get tlsLinks(): number {
    return this.#tls?.linkCount ?? 0;
  }

  /** Adds what was seen since the last call; every response counts as complete. */
  look(): void {
    this.hooks.object.ring("events").drain(this.#parts.onRecord);
    const draft: WindowDraft = { requests: [], losses: new Map(), names: [], peerNames: [] };
    const nowNs = process.hrtime.bigint() + 2_000_000_000n;
    this.#parts.sweep(nowNs);
    this.#parts.collect(draft, nowNs);
    this.#requests.push(...draft.requests);
    for (const [loss, count] of draft.losses) this.losses.set(loss, (this.losses.get(loss) ?? 0) + count);
  }

  /** Discards what was seen so far. */
  reset(): void {
    this.look();
    this.#requests = [];
    this.losses.clear();
  }

  count(port: number, role: TrafficRole): number {
    return this.#of(port, role).reduce((sum, { count }) => sum + count, 0);
  }

  /** On all ports: traffic besides the load has a cost too. */
  countAll(): number {
    return this.#requests.reduce((sum, { count }) => sum + count, 0);
  }

  percentileUs(port: number, role: TrafficRole, share: number): number {
    const merged = this.#of(port, role).reduce((sum, { duration }) => mergeHistograms(sum, duration), { lo: 0, counts: [] as number[] });
    return (percentileNs(fineLayout, merged, share) ?? Number.NaN) / 1_000;
  }

  /** Per program since it was loaded, for the time that the kernel was measuring. */
  programTimes(): ProgramTime[] {
    return this.hooks.object.stats().map(({ name, runNs, runs }) => ({ name, runNs: Number(runNs), runs: Number(runs) }));
  }

  #of(port: number, role: TrafficRole): RequestGroup[] {
    return this.#requests.filter((group) => group.serverPort === port && group.role === role);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    await this.#tls?.[Symbol.asyncDispose]();
    await this.#parts[Symbol.asyncDispose]();
    await this.hooks[Symbol.asyncDispose]();
  }
}

function asPlain(hooks: KernelHooks): KernelHooks {
  return {
    kind: hooks.kind,
    object: hooks.object,
    plaintextProblem: hooks.plaintextProblem,
    attach: () => hooks.attach(),
    attachWanted: () => hooks.attachWanted(),
    detach: () => hooks.detach(),
    [Symbol.asyncDispose]: () => hooks[Symbol.asyncDispose](),
  };
}
