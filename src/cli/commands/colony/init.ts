import { CoralError } from "../../../base/errors.ts";
import type { Invocation } from "../../run/invocation.ts";

const namePattern = /^[a-z0-9](?:[a-z0-9-]{0,28}[a-z0-9])?$/;

/** `coral init <app>`: creates the colony's directory, id, CA and config, and a context. Starts nothing. The id alone goes to stdout. */
export async function run(invocation: Invocation): Promise<void> {
  const { args, options, print } = invocation;
  const app = checkName("application name", args[0] ?? "");
  const environment = checkName("environment", options.text("env") ?? "dev");
  const created = await invocation.runtime.init({ app, environment });
  print.answer(`${created.colonyId}\n`);
  print.note(`  directory    ${created.directory}`);
  print.note(`  CA SHA-256   ${created.caFingerprint}`);
  print.note(`  context      ${created.contextName}`);
  print.note("next: coral colony start --daemon · coral agent start --daemon · coral status");
}

/** Names become directories, host-like ids and CLI arguments, hence the narrow alphabet. */
function checkName(what: string, name: string): string {
  if (namePattern.test(name)) return name;
  throw new CoralError({
    code: "usage",
    message: `Cannot use ${what} "${name}": write 1 to 30 lower-case letters, digits and dashes, such as ${what === "environment" ? "staging" : "shop-api"}`,
  });
}
