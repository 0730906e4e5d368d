import { CoralError } from "../../../base/errors.ts";
import type { Invocation } from "../../run/invocation.ts";
import { pipedInput, sizeOf, terminalInput } from "./command-keyboard.ts";
import { runWanted } from "./command-run.ts";
import { wantedCommand } from "./command-words.ts";

/** `coral exec <service> "<command>"`: one command at one or many agents, with their output and exit code. */
export async function run(invocation: Invocation): Promise<void> {
  const { io, options } = invocation;
  const wanted = wantedCommand(invocation, "exec");
  if (!options.flag("tty")) {
    await runWanted(invocation, { wanted, input: pipedInput(options.flag("stdin") ? io.stdin : undefined) });
    return;
  }
  if (io.stdin.isTTY !== true) throw new CoralError({ code: "usage", message: "Cannot use --tty: the input is not a terminal" });
  const [columns, rows] = sizeOf(io);
  const oneTarget = wanted.targets ? { targets: { ...wanted.targets, one: true } } : {};
  await runWanted(invocation, {
    wanted: { ...wanted, ...oneTarget },
    terminal: { columns, rows, type: io.env["TERM"] || "xterm" },
    input: terminalInput(io),
  });
}
