/** `coral exec`, `coral shell` and `coral run`. */

import { CoralError } from "../../../base/errors.ts";
import type { CliIo } from "../../output/cli-io.ts";
import type { Invocation } from "../../run/invocation.ts";
import { pipedInput, sizeOf, terminalInput } from "./command-keyboard.ts";
import { runWanted } from "./command-run.ts";
import { wantedCommand } from "./wanted-command.ts";

/** `coral exec <service> "<command>"`: runs one command at one or many agents, with their output and exit code. */
export async function exec(invocation: Invocation): Promise<void> {
  const { io, options } = invocation;
  const wanted = wantedCommand(invocation, "exec");
  if (!options.flag("tty")) {
    await runWanted(invocation, { wanted, input: pipedInput(options.flag("stdin") ? io.stdin : undefined) });
    return;
  }
  if (io.stdin.isTTY !== true) throw new CoralError({ code: "usage", message: "Cannot use --tty: the input is not a terminal" });
  const oneTarget = wanted.targets ? { targets: { ...wanted.targets, one: true } } : {};
  await runWanted(invocation, {
    wanted: { ...wanted, ...oneTarget },
    terminal: terminalOf(io),
    input: terminalInput(io),
  });
}

/** `coral shell [service]`: opens a terminal on an agent's host or in a container. The local terminal switches to raw mode meanwhile. */
export async function shell(invocation: Invocation): Promise<void> {
  const { io } = invocation;
  await runWanted(invocation, {
    wanted: wantedCommand(invocation, "shell"),
    terminal: terminalOf(io),
    // Input from a pipe goes to the terminal as if typed.
    input: io.stdin.isTTY === true ? terminalInput(io) : pipedInput(io.stdin),
  });
}

/** `coral run -- <program>`: runs a program under the agent, observed as a service, until this command ends. */
export async function run(invocation: Invocation): Promise<void> {
  const { io, options } = invocation;
  await runWanted(invocation, {
    wanted: wantedCommand(invocation, "run"),
    input: pipedInput(options.flag("stdin") ? io.stdin : undefined),
  });
}

/** Size and TERM of the local terminal, from which the remote program derives its escape sequences. */
function terminalOf(io: CliIo) {
  const [columns, rows] = sizeOf(io);
  return { columns, rows, type: io.env["TERM"] || "xterm" };
}
