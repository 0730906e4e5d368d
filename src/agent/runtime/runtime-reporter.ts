/** The agent's runtime context: detected at the start, refreshed on request, and compared with the previous result. */

import type { Clock } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { DetectedRuntime } from "../../host/index.ts";
import { type CapabilityFact, describeRuntimeChanges, modeLabel, type RuntimeFacts, runtimeLabel } from "../../model/runtime-facts.ts";

export interface RuntimeReporterOptions {
  /** Never rejects unless aborted. */
  detect: (signal: AbortSignal) => Promise<DetectedRuntime>;
  /** Evaluated on each use: they also depend on the config and on the traffic process. */
  capabilities: (found: Pick<DetectedRuntime, "runtimeType" | "sidecarMode" | "entersNamespaces" | "containerRuntime">) => CapabilityFact[];
  /** Version of the agent. */
  version: string;
  logsDetection: () => boolean;
  clock: Clock;
  log: Logger;
}

/** The result of one detection. */
export interface RuntimeRefresh {
  runtime: RuntimeFacts;
  /** Such as `sidecar mode passive → cri`; empty when nothing changed. */
  changes: string[];
}

/** Holds the last context in memory, so that status and policy checks cost no I/O. */
export class RuntimeReporter {
  readonly #options: RuntimeReporterOptions;
  #found: DetectedRuntime;
  #detectedAtMs: number;
  #refreshing: Promise<RuntimeRefresh> | undefined;

  private constructor(options: RuntimeReporterOptions, found: DetectedRuntime) {
    this.#options = options;
    this.#found = found;
    this.#detectedAtMs = options.clock.wallMs();
  }

  static async open(options: RuntimeReporterOptions, signal: AbortSignal): Promise<RuntimeReporter> {
    const reporter = new RuntimeReporter(options, await options.detect(signal));
    reporter.#log("Runtime context");
    return reporter;
  }

  /** The last detected context; does no I/O. */
  current(): RuntimeFacts {
    const { platform, runtimeType, sidecarMode, containerRuntime, visibility, evidence, isOverridden } = this.#found;
    return {
      platform,
      runtimeType,
      sidecarMode,
      containerRuntime: containerRuntime && {
        socketPath: containerRuntime.socketPath,
        type: containerRuntime.type,
        version: containerRuntime.version,
      },
      capabilities: this.#options.capabilities(this.#found),
      visibility,
      detectedAt: new Date(this.#detectedAtMs).toISOString(),
      version: this.#options.version,
      evidence,
      isOverridden,
    };
  }

  /** Everything but the detection time, for comparison. */
  fingerprint(): string {
    return JSON.stringify({ ...this.current(), detectedAt: "" });
  }

  /** Sentences about a container runtime that exists but cannot be used. */
  get problems(): readonly string[] {
    return this.#found.problems;
  }

  /** Detects again; concurrent calls share one detection. `before`: what to compare with, by default the current context. */
  refresh(signal: AbortSignal, before = this.current()): Promise<RuntimeRefresh> {
    this.#refreshing ??= this.#refresh(signal, before).finally(() => {
      this.#refreshing = undefined;
    });
    return this.#refreshing;
  }

  async #refresh(signal: AbortSignal, before: RuntimeFacts): Promise<RuntimeRefresh> {
    try {
      this.#found = await this.#options.detect(signal);
    } catch (error) {
      signal.throwIfAborted();
      throw new CoralError({
        code: "internal",
        message: `Cannot detect the runtime context: ${CoralError.from(error).message}`,
        cause: error,
      });
    }
    this.#detectedAtMs = this.#options.clock.wallMs();
    const runtime = this.current();
    const changes = describeRuntimeChanges(before, runtime);
    if (changes.length > 0) this.#log(`Runtime context changed (${changes.join(", ")})`);
    return { runtime, changes };
  }

  #log(headline: string): void {
    const { log, logsDetection } = this.#options;
    if (!logsDetection()) return;
    const { platform, runtimeType, containerRuntime, capabilities, visibility, evidence } = this.current();
    const mode = modeLabel(this.current());
    const facts = {
      platform: `${platform.os} (${platform.osVersion}) ${platform.arch}, kernel ${platform.kernel}`,
      evidence: evidence.join("; "),
      containerRuntime: containerRuntime
        ? `${containerRuntime.type} ${containerRuntime.version} at ${containerRuntime.socketPath}`
        : "none",
      ...(visibility.podScope ? { targets: visibility.containers } : {}),
      capabilities: capabilities.map(({ name, available }) => `${name}=${available}`).join(", "),
      visibility: visibility.namespace,
    };
    log.info(`${headline}: ${runtimeLabel(runtimeType)}${mode === "-" ? "" : `, ${mode}`}`, facts);
    for (const problem of this.#found.problems) log.info(problem);
  }
}
