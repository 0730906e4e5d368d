/** Log and signal handling of daemon processes. */

import { closeSync, constants, openSync } from "node:fs";
import { isatty } from "node:tty";
import { createLogger, formatJsonLine, formatTerminalLine, type Logger, streamSink } from "../../base/log.ts";
import { type LogConfig, sudoOwner } from "../../config/index.ts";
import { backgroundVariable } from "./background-daemon.ts";
import { RotatingFile } from "./rotating-file.ts";

export interface DaemonLog extends Disposable {
  log: Logger;
}

/** Logs to the terminal in the foreground, to a rotating file in the background. `auto` is text on a terminal, JSON otherwise. */
export function openDaemonLog(scope: string, config: LogConfig, file: string): DaemonLog {
  const isBackground = process.env[backgroundVariable] === "1";
  const isTerminal = !isBackground && process.stderr.isTTY === true;
  const asText = config.format === "text" || (config.format === "auto" && isTerminal);
  const format = asText
    ? (record: Parameters<typeof formatTerminalLine>[0]) => formatTerminalLine(record, isTerminal && !process.env["NO_COLOR"])
    : formatJsonLine;
  if (!isBackground) {
    // The terminal was closed, or the reader of a pipe exited: keep running without a reader.
    process.stderr.on("error", () => undefined);
    return { log: createLogger(scope, config.level, streamSink(process.stderr, format)), [Symbol.dispose]: () => undefined };
  }
  const owner = sudoOwner();
  const output = new RotatingFile({ path: file, owner });
  return { log: createLogger(scope, config.level, streamSink(output, format)), [Symbol.dispose]: () => output[Symbol.dispose]() };
}

/** A second signal within this time counts as the same one. */
const repeatedSignalMs = 500;

export interface DaemonSignals {
  /**
   * Resolves on SIGINT or SIGTERM, even one received during start-up, and when the daemon's terminal is closed. Calls `reload` on SIGHUP; if that
   * fails, the failure is logged and the old config stays.
   */
  untilStopped(options: { log: Logger; reload: () => Promise<void> }): Promise<void>;
}

/**
 * Call it first: from then on signals cause a clean shutdown. A second signal exits at once, in case the shutdown hangs.
 */
export function listenForSignals(): DaemonSignals {
  // Under nohup stdin is not the terminal: the daemon should outlive it.
  const belongsToTerminal = isatty(0);
  let stop: (name: string) => void = () => undefined;
  const stopped = new Promise<string>((resolve) => {
    stop = resolve;
  });
  let stoppingSinceMs: number | undefined;
  let reload: () => void = () => undefined;
  const onStop = (name: string): void => {
    if (stoppingSinceMs !== undefined) {
      // Under npm one Ctrl-C arrives twice: from the terminal, and forwarded by npm.
      if (performance.now() - stoppingSinceMs > repeatedSignalMs) process.exit(1);
      return;
    }
    stoppingSinceMs = performance.now();
    stop(name);
  };
  process.on("SIGHUP", () => {
    if (belongsToTerminal && !hasTerminal()) onStop("hang-up of its terminal");
    else reload();
  });
  process.on("SIGINT", () => onStop("SIGINT"));
  process.on("SIGTERM", () => onStop("SIGTERM"));
  return {
    untilStopped: async (options) => {
      const { log } = options;
      reload = () => {
        options.reload().catch((error: unknown) => log.error("Cannot reload the config; keeping the old one", { error }));
      };
      log.info(`Stopping on ${await stopped}`);
    },
  };
}

/** Distinguishes the two meanings of SIGHUP: reload the config, or the terminal is gone. */
function hasTerminal(): boolean {
  try {
    closeSync(openSync("/dev/tty", constants.O_RDONLY | constants.O_NOCTTY));
    return true;
  } catch {
    // ENXIO: this process no longer has a terminal.
    return false;
  }
}
