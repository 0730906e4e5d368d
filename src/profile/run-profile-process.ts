/** The main function of the profile process: takes settings from the agent's channel, sends windows, and exits when the channel closes. */

import { availableParallelism } from "node:os";
import { CoralError } from "../base/errors.ts";
import { createLogger, formatJsonLine, type Logger, streamSink } from "../base/log.ts";
import { exitCodeOff } from "../base/supervised-process.ts";
import { releaseMemory } from "../bpf/index.ts";
import { cleanCodeRanges } from "../host/index.ts";
import type { ProfileOrder, ProfileReport, ProfileSettings } from "./core/messages.ts";
import { openCpuSampler } from "./kernel/cpu-sampler.ts";
import { ProfileRuntime } from "./profile-runtime.ts";

/** The process's end of the channel. */
export interface ProfileChannel {
  send(message: ProfileReport, sent: () => void): void;
  onOrder(listener: (order: ProfileOrder) => void): void;
  onClose(listener: () => void): void;
  exit(code: number): void;
  /** Exits at once, without waiting for calls on other threads. */
  end(): void;
}

const releaseIntervalMs = 60_000;

/** Runs until the channel closes; then the process exits at once, and the kernel removes its program and events. */
export function runProfileProcess(channel: ProfileChannel): void {
  const log = createLogger("profile", "info", streamSink(process.stderr, formatJsonLine));
  channel.onClose(() => channel.end());
  let running: Promise<void> | undefined;
  // The first settings start it; changed settings start a new process.
  channel.onOrder(({ settings }) => {
    running ??= start(settings, channel, log).catch((error: unknown) => endWith(error, channel, log));
  });
}

async function start(settings: ProfileSettings, channel: ProfileChannel, log: Logger): Promise<void> {
  const sampler = await openCpuSampler(availableParallelism());
  const runtime = new ProfileRuntime({ sampler, settings, report: (report) => channel.send(report, () => undefined), log });
  await runtime.start();
  // Loading briefly takes tens of megabytes: libbpf reads the types of the whole kernel.
  releaseMemory(cleanCodeRanges);
  setInterval(releaseMemory, releaseIntervalMs, cleanCodeRanges);
}

/** An unsupported host is reported once; anything else is a crash, and the agent restarts the process. */
function endWith(error: unknown, channel: ProfileChannel, log: Logger): void {
  const problem = CoralError.from(error);
  if (problem.code === "unsupported") {
    channel.send({ kind: "state", state: "off", problem: problem.message, hz: 0 }, () => channel.exit(exitCodeOff));
    return;
  }
  log.error(problem.message, { error });
  channel.exit(1);
}
