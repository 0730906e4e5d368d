import { CoralError } from "../../../base/errors.ts";
import { resolveColony } from "../../../config/index.ts";
import { homeOf, type Invocation } from "../../run/invocation.ts";

/** The colony of this machine that a start or stop means. */
export async function localColonyId(invocation: Invocation): Promise<string> {
  const target = await resolveColony(homeOf(invocation), invocation.colony);
  if (target.kind === "local") return target.colonyId;
  throw new CoralError({
    code: "usage",
    message: `Cannot ${invocation.command}: colony "${target.contextName}" runs elsewhere, at ${target.endpoint}; start and stop it there, or name a local one with --colony`,
  });
}
