import { CoralError } from "../../../base/errors.ts";
import { given } from "../../../base/given.ts";
import type { Invocation } from "../../run/invocation.ts";
import type { DaemonStarted, RunOptions } from "../../run/runtime.ts";

/** The daemon options that were given on the command line. */
export function runOptionsOf(invocation: Invocation): RunOptions {
  const { options, logLevel } = invocation;
  const config = options.text("config");
  const listen = listenOf(invocation);
  const token = options.text("token") ?? (invocation.io.env["CORAL_JOIN_TOKEN"] || undefined);
  const logFormat = options.text("log-format");
  return {
    ...given({ config, listen, token, logLevel }),
    ...(logFormat === "json" || logFormat === "text" ? { logFormat } : {}),
  };
}

function listenOf(invocation: Invocation): string | undefined {
  const { options } = invocation;
  const port = options.integer("port", 0, 65_535);
  const listen = options.text("listen");
  if (port !== undefined && listen !== undefined) {
    throw new CoralError({ code: "usage", message: "Cannot use --port and --listen together: --listen holds the port, too" });
  }
  return listen ?? port?.toString();
}

/** Says that a daemon runs in the background, where, and how to look at it. */
export function printStarted(invocation: Invocation, started: DaemonStarted, next: readonly string[]): void {
  const { print } = invocation;
  print.answer(`${started.kind} started, pid ${started.pid}\n`);
  for (const [name, address] of Object.entries(started.endpoints)) print.note(`  ${name.padEnd(8)} ${address}`);
  print.note(`  ${"log".padEnd(8)} ${started.logFile}`);
  print.note(`next: ${next.join(" · ")}`);
}
