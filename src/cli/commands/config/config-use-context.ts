import { readContexts, writeContexts } from "../../../config/index.ts";
import { homeOf, type Invocation } from "../../run/invocation.ts";
import { findContext } from "../colony/find-context.ts";

/** `coral config use-context <name>`. */
export async function run(invocation: Invocation): Promise<void> {
  const home = homeOf(invocation);
  const all = await readContexts(home);
  const { name, colonyId } = findContext(all, invocation.args[0] ?? "");
  await writeContexts(home, { ...all, currentContext: name });
  invocation.print.answer(`current context is ${name} (colony ${colonyId})\n`);
}
