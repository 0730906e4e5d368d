import type { TokenCreated } from "../../../tools/index.ts";
import { plural } from "../../output/values.ts";
import { connectColony } from "../../run/connection.ts";
import type { Invocation } from "../../run/invocation.ts";
import type { AnswerView } from "../../run/show-answer.ts";
import { showTool, toolInput } from "../../run/show-tool.ts";
import { tokenTable } from "./token-list.ts";

/** `coral colony token create`: the token alone on stdout, so that it can be captured. */
export async function run(invocation: Invocation): Promise<void> {
  const { print, format } = invocation;
  const { kind = "join", name = "" } = toolInput(invocation, "coral_create_token");
  const colony = await connectColony(invocation);
  const view: AnswerView<TokenCreated> = {
    table: (created) => tokenTable([created], Date.now()),
    page: ({ token }) => `${token}\n`,
    after: ({ tokenId, usesLeft, expiresAt }) => {
      if (format !== "table") return;
      const uses = usesLeft === null ? "unlimited uses" : plural(usesLeft, "use");
      print.note(`token ${tokenId}, valid until ${expiresAt}, ${uses}; it is not shown again`);
      print.note(
        kind === "join"
          ? "on the other host: CORAL_JOIN_TOKEN=<token> coral agent start --daemon"
          : `on the other machine: coral config add-context ${colony.name} --token -`,
      );
    },
  };
  await showTool(invocation, "coral_create_token", view, { kind, name });
}
