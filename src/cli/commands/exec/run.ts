import type { Invocation } from "../../run/invocation.ts";
import { pipedInput } from "./command-keyboard.ts";
import { runWanted } from "./command-run.ts";
import { wantedCommand } from "./command-words.ts";

/** `coral run -- <program>`: a program under the agent, observed as a service, for as long as this command runs. */
export async function run(invocation: Invocation): Promise<void> {
  const { io, options } = invocation;
  await runWanted(invocation, {
    wanted: wantedCommand(invocation, "run"),
    input: pipedInput(options.flag("stdin") ? io.stdin : undefined),
  });
}
