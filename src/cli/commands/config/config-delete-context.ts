import { rm } from "node:fs/promises";
import { dirname } from "node:path";
import { homePaths, readContexts, writeContexts } from "../../../config/index.ts";
import { homeOf, type Invocation } from "../../run/invocation.ts";
import { findContext } from "../colony/find-context.ts";

/** `coral config delete-context <name>`. */
export async function run(invocation: Invocation): Promise<void> {
  const home = homeOf(invocation);
  const all = await readContexts(home);
  const context = findContext(all, invocation.args[0] ?? "");
  const contexts = all.contexts.filter((item) => item.name !== context.name);
  const wasCurrent = all.currentContext === context.name;
  await writeContexts(home, { contexts, currentContext: wasCurrent ? undefined : all.currentContext });
  // A token file that lies elsewhere belongs to somebody else.
  if (context.tokenFile !== undefined && dirname(context.tokenFile) === homePaths(home).tokensDirectory)
    await rm(context.tokenFile, { force: true });
  invocation.print.answer(`context ${context.name} deleted\n`);
  if (wasCurrent && contexts.length > 0)
    invocation.print.note('no context is current now; choose one with "coral config use-context <name>"');
}
