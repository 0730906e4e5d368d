import { sleep } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import { escapeText, shellWord } from "../../base/escape-text.ts";
import type { AgentStatus, ColonyStatus } from "../../tools/index.ts";
import { askAgent, connectColony } from "../run/connection.ts";
import type { Invocation } from "../run/invocation.ts";
import type { DaemonReady } from "../run/runtime.ts";
import { runOptionsOf } from "./daemons.ts";
import { statusPage } from "./status.ts";

/** Limit for the first overview. A slow machine keeps running without it. */
const firstLookTimeoutMs = 60_000;
/** How long to wait for services, which are discovered shortly after the first host sample. A machine may have none. */
const servicesTimeoutMs = 5_000;
/** How often to ask for the first sample. */
const pollMs = 500;

/** `coral up`: runs in the foreground until Ctrl-C. Prints endpoints, gaps, and an overview of this machine. */
export async function run(invocation: Invocation): Promise<void> {
  const ended = new AbortController();
  let look: Promise<void> | undefined;
  const colonyId = invocation.colony === undefined ? {} : { colonyId: invocation.colony };
  try {
    await invocation.runtime.run("up", { ...runOptionsOf(invocation), ...colonyId }, async (ready) => {
      printReady(invocation, ready);
      // Not awaited: Ctrl-C must stop the daemon at any time.
      look = firstLook(invocation, AbortSignal.any([ended.signal, AbortSignal.timeout(firstLookTimeoutMs)]));
      await Promise.resolve();
    });
  } finally {
    ended.abort();
    await look;
  }
  invocation.print.note("coral stopped; stored data is kept");
}

/** Addresses, and what this host does not support, each with its reason. */
function printReady({ print }: Invocation, ready: DaemonReady): void {
  const { style } = print;
  const lines = [style("bold", "Coral is running: a colony and an agent on this machine"), ""];
  for (const [name, address] of Object.entries(ready.endpoints)) lines.push(`  ${name.padEnd(9)} ${address}`);
  if (ready.degraded.length > 0) lines.push("", "Not available here:");
  for (const { name, reason } of ready.degraded) lines.push(`  ${style("yellow", "!")} ${escapeText(name)}: ${escapeText(reason)}`);
  print.answer(`${lines.join("\n")}\n\n${style("dim", "Observing this machine…")}\n`);
}

/** Waits for the first rows to reach the colony and prints the overview. Never throws: the daemon keeps running without it. */
async function firstLook(invocation: Invocation, signal: AbortSignal): Promise<void> {
  const { print } = invocation;
  try {
    const status = await untilSeen(invocation, signal);
    const host = status.hosts[0]?.hostname;
    const next = [
      ["coral query summary", "service health, worst first, with reasons"],
      ["coral top", "the busiest services, live"],
      [`coral query host${host === undefined ? "" : ` ${escapeText(host)}`}`, "CPU, memory, disks, network and processes"],
    ].map(([command = "", what = ""]) => [commandHere(invocation, command), what] as const);
    const width = Math.max(...next.map(([command]) => command.length));
    // A wrapped line is hard to copy: drop the explanation on a narrow terminal.
    const hints = next.map(([command, what]) => {
      const isFitting = print.width === undefined || width + 4 + what.length <= print.width;
      return isFitting ? `  ${print.style("cyan", command.padEnd(width))}  ${what}` : `  ${print.style("cyan", command)}`;
    });
    print.answer(
      `\n${statusPage(status, print, false, Date.now())}\nTry in another terminal:\n${hints.join("\n")}\n\nPress Ctrl-C to stop.\n`,
    );
  } catch (error) {
    if (!signal.aborted) print.warning(`nothing to show yet: ${escapeText(CoralError.from(error).message)}; try "coral status"`);
  }
}

/** Prefix for another terminal, which needs the same CORAL_HOME. */
function commandHere({ print, io }: Invocation, command: string): string {
  const home = io.env["CORAL_HOME"];
  return `${home ? `CORAL_HOME=${shellWord(home)} ` : ""}${print.commands(command)}`;
}

/** Waits until the colony has pulled a host sample of this machine's agent, then a little longer for services. */
async function untilSeen(invocation: Invocation, signal: AbortSignal): Promise<ColonyStatus> {
  const within = { ...invocation, io: { ...invocation.io, signal } };
  const agent = await askAgent<AgentStatus>(within, "/v1/status");
  const colony = await connectColony({ ...within, colony: agent.colony.id ?? invocation.colony });
  let deadlineMs: number | undefined;
  for (;;) {
    const status = await colony.call("coral_get_status", {});
    if (status.hosts.some((host) => host.agentId === agent.agentId && host.sampledAt !== null)) {
      deadlineMs ??= performance.now() + servicesTimeoutMs;
      if (status.services.total > 0 || performance.now() >= deadlineMs) return status;
    }
    await sleep(pollMs, signal);
  }
}
