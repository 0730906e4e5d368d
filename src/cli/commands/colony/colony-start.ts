import type { Invocation } from "../../run/invocation.ts";
import { printStarted, runOptionsOf } from "../exec/run-options.ts";
import { localColonyId } from "./local-colony.ts";

/** `coral colony start`. */
export async function run(invocation: Invocation): Promise<void> {
  const options = { ...runOptionsOf(invocation), colonyId: await localColonyId(invocation) };
  if (!invocation.options.flag("daemon")) {
    await invocation.runtime.run("colony", options);
    return;
  }
  const started = await invocation.runtime.start("colony", options);
  printStarted(invocation, started, ["coral agent start --daemon", "coral status", "coral colony stop"]);
}
