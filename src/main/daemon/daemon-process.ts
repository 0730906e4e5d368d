/** What every daemon process needs around it: a log, signals, and a clean end. */

import { closeSync, constants, lchownSync, openSync } from "node:fs";
import { isatty } from "node:tty";
import { createLogger, formatJsonLine, formatTerminalLine, type Logger, streamSink } from "../../base/log.ts";
import { RotatingFile } from "../../base/rotating-file.ts";
import { type LogConfig, sudoOwner } from "../../config/index.ts";
import { backgroundVariable } from "./background-daemon.ts";

export interface DaemonLog extends Disposable {
  log: Logger;
}

/** To the terminal in the foreground, to a rotating file in the background; JSON unless a person is reading. */
export function openDaemonLog(scope: string, config: LogConfig, file: string): DaemonLog {
  const isBackground = process.env[backgroundVariable] === "1";
  const isTerminal = !isBackground && process.stderr.isTTY === true;
  const asText = config.format === "text" || (config.format === "auto" && isTerminal);
  const format = asText
    ? (record: Parameters<typeof formatTerminalLine>[0]) => formatTerminalLine(record, isTerminal && !process.env["NO_COLOR"])
    : formatJsonLine;
  if (!isBackground) {
    // The terminal was closed, or `2>&1 | head` has left: the daemon goes on without a reader.
    process.stderr.on("error", () => undefined);
    return { log: createLogger(scope, config.level, streamSink(process.stderr, format)), [Symbol.dispose]: () => undefined };
  }
  const owner = sudoOwner();
  const output = new RotatingFile({ path: file, onOpen: (path) => (owner ? lchownSync(path, owner.uid, owner.gid) : undefined) });
  return { log: createLogger(scope, config.level, streamSink(output, format)), [Symbol.dispose]: () => output[Symbol.dispose]() };
}

/** Signals closer together than this are one. */
const repeatedSignalMs = 500;

export interface DaemonSignals {
  /**
   * Resolves on SIGINT or SIGTERM, also on one that came while the daemon was starting, and when the terminal it was started in is closed.
   * `reload` is called on SIGHUP; its failure is logged and the daemon goes on with the old config.
   */
  untilStopped(options: { log: Logger; reload: () => Promise<void> }): Promise<void>;
}

/**
 * To be called first: from then on a daemon ends by closing what it has opened. A second signal ends the process at once, for a shut-down
 * that hangs.
 */
export function listenForSignals(): DaemonSignals {
  // With nohup stdin is not the terminal: then it is meant to outlive it.
  const belongsToTerminal = isatty(0);
  let stop: (name: string) => void = () => undefined;
  const stopped = new Promise<string>((resolve) => {
    stop = resolve;
  });
  let stoppingSinceMs: number | undefined;
  let reload: () => void = () => undefined;
  const onStop = (name: string): void => {
    if (stoppingSinceMs !== undefined) {
      // One Ctrl-C under npm arrives twice: from the terminal, and passed on by npm.
      if (performance.now() - stoppingSinceMs > repeatedSignalMs) process.exit(1);
      return;
    }
    stoppingSinceMs = performance.now();
    stop(name);
  };
  process.on("SIGHUP", () => {
    if (belongsToTerminal && !hasTerminal()) onStop("the end of its terminal");
    else reload();
  });
  process.on("SIGINT", () => onStop("SIGINT"));
  process.on("SIGTERM", () => onStop("SIGTERM"));
  return {
    untilStopped: async (options) => {
      const { log } = options;
      reload = () => {
        options.reload().catch((error: unknown) => log.error("Cannot reload the config; going on with the old one", { error }));
      };
      log.info(`Stopping on ${await stopped}`);
    },
  };
}

/** SIGHUP means "read the config again" and "your terminal is gone"; only the kernel can tell which. */
function hasTerminal(): boolean {
  try {
    closeSync(openSync("/dev/tty", constants.O_RDONLY | constants.O_NOCTTY));
    return true;
  } catch {
    // ENXIO: this process has no terminal any more.
    return false;
  }
}
