import { CoralError } from "../../../base/errors.ts";
import { agentPaths, listLocalColonies, loadAgentConfig, loadColonyConfig, readContexts } from "../../../config/index.ts";
import { tableOf } from "../../output/table.ts";
import { homeOf, type Invocation } from "../../run/invocation.ts";
import { showAnswer } from "../../run/show-answer.ts";

/** `coral config view [part]`: the effective configuration of this home, and the file that sets each part. */
export async function run(invocation: Invocation): Promise<void> {
  const home = homeOf(invocation);
  const part = invocation.args[0];
  const { env } = invocation.io;
  const ask = async (): Promise<Record<string, unknown>> => ({
    home,
    ...(part === undefined || part === "contexts" ? await readContexts(home) : {}),
    ...(part === undefined || part === "colony" ? { colonies: await coloniesOf(home, env) } : {}),
    ...(part === undefined || part === "agent" ? { agent: await agentOf(home, env) } : {}),
  });
  const format = invocation.format === "json" ? "json" : "yaml";
  await showAnswer({ ...invocation, format }, ask, { table: () => tableOf([], []) });
}

async function coloniesOf(home: string, env: Invocation["io"]["env"]): Promise<unknown[]> {
  const ids = await listLocalColonies(home);
  return Promise.all(
    ids.map(async (colonyId) => {
      try {
        const { values, file } = await loadColonyConfig({ home, colonyId, env });
        return { file, ...values };
      } catch (error) {
        // One broken colony must not hide the others.
        return { id: colonyId, problem: CoralError.from(error).message };
      }
    }),
  );
}

/** The agent's config file is optional, a colony's is not: coral init writes it. */
async function agentOf(home: string, env: Invocation["io"]["env"]): Promise<unknown> {
  const { values, file } = await loadAgentConfig({ home, env });
  return { file: file ?? `${agentPaths(home).configFile} (absent, defaults apply)`, ...values };
}
