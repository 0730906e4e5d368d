import { given } from "../../../base/given.ts";
import type { TokenCreated } from "../../../tools/index.ts";
import { plural } from "../../output/values.ts";
import { connectColony } from "../../run/connection.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showAnswer } from "../../run/show-answer.ts";
import { tokenTable } from "./token-list.ts";

/** `coral colony token create`: the token alone on stdout, so that it can be captured. */
export async function run(invocation: Invocation): Promise<void> {
  const { options, print } = invocation;
  const kind = options.text("kind") ?? "join";
  const permission = options.text("permission");
  const uses = options.integer("uses", 1, 1_000_000);
  const colony = await connectColony(invocation);
  const input = {
    kind,
    name: options.text("note") ?? "",
    ...given({ permission, uses }),
    validFor: options.durationText("ttl") ?? "24h",
  };
  const answer = await colony.call<TokenCreated>("coral_create_token", input);
  await showAnswer(invocation, () => Promise.resolve(answer), {
    table: (created) => tokenTable([created], Date.now()),
    page: (created) => `${created.token}\n`,
  });
  if (invocation.format !== "table") return;
  const limit = answer.usesLeft === null ? "until then as often as wanted" : `for ${plural(answer.usesLeft, "use")}`;
  print.note(`token ${answer.tokenId}, valid until ${answer.expiresAt}, ${limit}; it is not shown again`);
  print.note(
    kind === "join"
      ? "on the other host: CORAL_JOIN_TOKEN=<token> coral agent start --daemon"
      : `on the other machine: coral config add-context ${colony.name} --token -`,
  );
}
