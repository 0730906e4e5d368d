import { given } from "../../../base/given.ts";
import type { SummaryResult } from "../../../tools/index.ts";
import { tableOf } from "../../output/table.ts";
import { connectColony } from "../../run/connection.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showAnswer } from "../../run/show-answer.ts";
import { summaryPage } from "./summary-page.ts";
import { summaryColumns } from "./summary-text.ts";

/** `coral query summary [service]`: how all services are, the worst first, or one in full. */
export async function run(invocation: Invocation): Promise<void> {
  const { args, options, print } = invocation;
  const colony = await connectColony(invocation);
  const [service] = args;
  const limit = options.integer("limit", 1, 1_000);
  const input = {
    since: options.durationText("since") ?? "5m",
    ...given({ service, limit }),
  };
  await showAnswer(invocation, () => colony.call<SummaryResult>("coral_query_summary", input), {
    table: ({ services }) => tableOf(services, summaryColumns),
    page: (answer, wide) => summaryPage(answer, print, { wide, isOne: service !== undefined, nowMs: Date.now() }),
    empty: "No service is known yet; agents look for them every half minute, see coral services",
  });
}
