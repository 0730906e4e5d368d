import { type Context, colonyPaths, listLocalColonies, readContexts } from "../../../config/index.ts";
import { tableOf } from "../../output/table.ts";
import { homeOf, type Invocation } from "../../run/invocation.ts";
import { showAnswer } from "../../run/show-answer.ts";

interface ContextLine extends Context {
  current: boolean;
  /** Where commands will go. */
  where: string;
}

/** `coral config get-contexts`. */
export async function run(invocation: Invocation): Promise<void> {
  const home = homeOf(invocation);
  const ask = async (): Promise<{ currentContext: string | null; contexts: ContextLine[] }> => {
    const [{ contexts, currentContext }, local] = await Promise.all([readContexts(home), listLocalColonies(home)]);
    const lines = contexts.map((context) => ({
      ...context,
      current: context.name === currentContext,
      where: local.includes(context.colonyId)
        ? `unix:${colonyPaths(home, context.colonyId).socketFile}`
        : context.endpoint
          ? `https://${context.endpoint}`
          : "nowhere",
    }));
    return { currentContext: currentContext ?? null, contexts: lines };
  };
  await showAnswer(invocation, ask, {
    table: ({ contexts }) =>
      tableOf(contexts, [
        { title: "CURRENT", key: "current", cell: (context) => (context.current ? "*" : " "), raw: (context) => context.current },
        { title: "NAME", key: "name", cell: (context) => context.name },
        { title: "COLONY", key: "colonyId", cell: (context) => context.colonyId },
        { title: "REACHED AT", key: "where", cell: (context) => context.where },
      ]),
    empty: 'There are no contexts; "coral init <app>" makes a colony here, "coral config add-context" adds one that runs elsewhere',
  });
}
