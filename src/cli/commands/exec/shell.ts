import type { Invocation } from "../../run/invocation.ts";
import { pipedInput, sizeOf, terminalInput } from "./command-keyboard.ts";
import { runWanted } from "./command-run.ts";
import { wantedCommand } from "./command-words.ts";

/** `coral shell [service]`: a terminal on an agent's host or in a container. */
export async function run(invocation: Invocation): Promise<void> {
  const { io } = invocation;
  const [columns, rows] = sizeOf(io);
  await runWanted(invocation, {
    wanted: wantedCommand(invocation, "shell"),
    terminal: { columns, rows, type: io.env["TERM"] || "xterm" },
    // Words from a pipe are typed, as far as there are any.
    input: io.stdin.isTTY === true ? terminalInput(io) : pipedInput(io.stdin),
  });
}
