import { join } from "node:path";
import { CoralError } from "../../../base/errors.ts";
import { homePaths, readContexts, saveContext, writePrivateFile } from "../../../config/index.ts";
import { parseToken } from "../../../transport/index.ts";
import { homeOf, type Invocation } from "../../run/invocation.ts";
import { readInput } from "../read-input.ts";

/** `coral config add-context <name> --token <token>`. */
export async function run(invocation: Invocation): Promise<void> {
  const { args, options, print } = invocation;
  const name = args[0] ?? "";
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/.test(name)) {
    throw new CoralError({
      code: "usage",
      message: `Cannot use context name "${name}": write 1 to 63 letters, digits, dots, dashes and underscores`,
    });
  }
  const home = homeOf(invocation);
  const { contexts } = await readContexts(home);
  if (contexts.some((context) => context.name === name)) {
    throw new CoralError({
      code: "already-exists",
      message: `Cannot add context "${name}": there is one of that name; delete it first with "coral config delete-context ${name}"`,
    });
  }
  const given = options.text("token") ?? (invocation.io.env["CORAL_TOKEN"] || undefined) ?? "-";
  const text = (given === "-" ? await readInput(invocation, "the token") : given).trim();
  const token = parseToken(text, "user");
  const endpoint = token.endpoints[0];
  if (endpoint === undefined) throw new CoralError({ code: "usage", message: "Cannot use this token: it names no endpoint" });
  const tokenFile = join(homePaths(home).tokensDirectory, `${name}.token`);
  await writePrivateFile(tokenFile, `${text}\n`);
  await saveContext(
    home,
    { name, colonyId: token.colonyId, endpoint, caFingerprint: token.caFingerprint, tokenFile },
    { makeCurrent: options.flag("use") },
  );
  print.answer(`context ${name} added (colony ${token.colonyId} at ${endpoint})\n`);
  print.note(`next: coral status --colony ${name}`);
}
