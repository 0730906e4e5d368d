/** Starts and stops colony and agent, in the foreground or the background. */

import { CoralError } from "../../base/errors.ts";
import { given } from "../../base/given.ts";
import { formatDurationMs } from "../../base/units.ts";
import { readContexts, resolveColony } from "../../config/index.ts";
import { homeOf, type Invocation } from "../run/invocation.ts";
import type { DaemonStarted, DaemonStopped, RunOptions } from "../run/runtime.ts";

/** A daemon under load needs seconds to finish running commands and to checkpoint its database. */
const defaultStopTimeoutMs = 30_000;

/** `coral colony start`. */
export async function startColony(invocation: Invocation): Promise<void> {
  const next = ["coral agent start --daemon", "coral status", "coral colony stop"];
  await start(invocation, "colony", await localColonyId(invocation), next);
}

/** `coral agent start`. */
export async function startAgent(invocation: Invocation): Promise<void> {
  await start(invocation, "agent", await namedColonyId(invocation), ["coral agent status", "coral agent stop"]);
}

/** `coral colony stop`. */
export async function stopColony(invocation: Invocation): Promise<void> {
  const colonyId = await localColonyId(invocation);
  printStopped(invocation, "colony", await invocation.runtime.stop("colony", { colonyId, timeoutMs: stopTimeoutMs(invocation) }));
}

/** `coral agent stop`. */
export async function stopAgent(invocation: Invocation): Promise<void> {
  printStopped(invocation, "agent", await invocation.runtime.stop("agent", { timeoutMs: stopTimeoutMs(invocation) }));
}

async function start(
  invocation: Invocation,
  kind: "colony" | "agent",
  colonyId: string | undefined,
  next: readonly string[],
): Promise<void> {
  const options = { ...runOptionsOf(invocation), ...given({ colonyId }) };
  if (invocation.options.flag("daemon")) printStarted(invocation, await invocation.runtime.start(kind, options), next);
  else await invocation.runtime.run(kind, options);
}

function stopTimeoutMs({ options }: Invocation): number {
  return options.durationMs("timeout") ?? defaultStopTimeoutMs;
}

/** The local colony that the command selects. */
async function localColonyId(invocation: Invocation): Promise<string> {
  const target = await resolveColony(homeOf(invocation), invocation.colony);
  if (target.kind === "local") return target.colonyId;
  throw new CoralError({
    code: "usage",
    message: `Cannot ${invocation.command}: colony "${target.contextName}" runs on another machine, at ${target.endpoint}; start and stop it there, or name a local one with --colony`,
  });
}

/** Accepts a context name or a colony id, because a colony on another machine may have no context here. */
async function namedColonyId(invocation: Invocation): Promise<string | undefined> {
  const wanted = invocation.options.text("colony-id") ?? invocation.colony;
  if (wanted === undefined) return undefined;
  const { contexts } = await readContexts(homeOf(invocation));
  return contexts.find((context) => context.name === wanted)?.colonyId ?? wanted;
}

/** Daemon options from the command line. */
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

/** --port alone keeps the configured host, so only the port is passed on. */
function listenOf(invocation: Invocation): string | undefined {
  const { options } = invocation;
  const port = options.integer("port", 0, 65_535);
  const listen = options.text("listen");
  if (port !== undefined && listen !== undefined) {
    throw new CoralError({ code: "usage", message: "Cannot use --port and --listen together: --listen includes the port" });
  }
  return listen ?? port?.toString();
}

function printStarted(invocation: Invocation, started: DaemonStarted, next: readonly string[]): void {
  const { print } = invocation;
  print.answer(`${started.kind} started, pid ${started.pid}\n`);
  for (const [name, address] of Object.entries(started.endpoints)) print.note(`  ${name.padEnd(8)} ${address}`);
  print.note(`  ${"log".padEnd(8)} ${started.logFile}`);
  print.note(`next: ${next.join(" · ")}`);
}

/** Idempotent: stopping a daemon that is not running succeeds. */
function printStopped(invocation: Invocation, what: string, stopped: DaemonStopped): void {
  if (stopped.kind === "not-running") invocation.print.note(`${what} was not running`);
  else invocation.print.answer(`${what} stopped, pid ${stopped.pid} exited after ${formatDurationMs(stopped.tookMs)}\n`);
}
