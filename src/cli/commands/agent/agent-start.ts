import { readContexts } from "../../../config/index.ts";
import { homeOf, type Invocation } from "../../run/invocation.ts";
import { printStarted, runOptionsOf } from "../exec/run-options.ts";

/** `coral agent start`. */
export async function run(invocation: Invocation): Promise<void> {
  const colonyId = await colonyIdOf(invocation);
  const options = { ...runOptionsOf(invocation), ...(colonyId === undefined ? {} : { colonyId }) };
  if (!invocation.options.flag("daemon")) {
    await invocation.runtime.run("agent", options);
    return;
  }
  const started = await invocation.runtime.start("agent", options);
  printStarted(invocation, started, ["coral agent status", "coral agent stop"]);
}

/** A context's name is as good as the id; a colony elsewhere need not be among the contexts. */
async function colonyIdOf(invocation: Invocation): Promise<string | undefined> {
  const wanted = invocation.options.text("colony-id") ?? invocation.colony;
  if (wanted === undefined) return undefined;
  const { contexts } = await readContexts(homeOf(invocation));
  return contexts.find((context) => context.name === wanted)?.colonyId ?? wanted;
}
