/** `coral config get-contexts`, `use-context`, `add-context` and `delete-context`. */

import { rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { closest } from "../../../base/closest.ts";
import { CoralError } from "../../../base/errors.ts";
import {
  type Context,
  type Contexts,
  colonyPaths,
  homePaths,
  listLocalColonies,
  readContexts,
  saveContext,
  writeContexts,
  writePrivateFile,
} from "../../../config/index.ts";
import { parseToken } from "../../../transport/index.ts";
import { tableOf } from "../../output/table.ts";
import { homeOf, type Invocation } from "../../run/invocation.ts";
import { showAnswer } from "../../run/show-answer.ts";
import { textOrStdin } from "../read-input.ts";

interface ContextLine extends Context {
  current: boolean;
  /** Endpoint that commands of the context are sent to. */
  where: string;
}

/** Lists contexts. A colony of this machine is reached at its unix socket, even if the context also has an endpoint. */
export async function getContexts(invocation: Invocation): Promise<void> {
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
    empty: 'No contexts; create a colony here with "coral init <app>", or add one on another machine with "coral config add-context"',
  });
}

/** Sets the context that commands use without --colony. */
export async function useContext(invocation: Invocation): Promise<void> {
  const home = homeOf(invocation);
  const all = await readContexts(home);
  const { name, colonyId } = findContext(all, invocation.args[0] ?? "");
  await writeContexts(home, { ...all, currentContext: name });
  invocation.print.answer(`current context is ${name} (colony ${colonyId})\n`);
}

/**
 * Adds a context from a user token. The token contains the colony's id, its endpoints and the fingerprint of its CA, so that the first
 * connection is already authenticated. The token file has mode 0600.
 */
export async function addContext(invocation: Invocation): Promise<void> {
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
      message: `Cannot add context "${name}": it exists; delete it first with "coral config delete-context ${name}"`,
    });
  }
  const given = options.text("token") ?? (invocation.io.env["CORAL_TOKEN"] || undefined);
  const text = (await textOrStdin(invocation, given, "the token")).trim();
  const token = parseToken(text, "user");
  const endpoint = token.endpoints[0];
  if (endpoint === undefined) throw new CoralError({ code: "usage", message: "Cannot use this token: it contains no endpoint" });
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

/** Deletes a context and its token. The token stays valid until it expires or is revoked at the colony. */
export async function deleteContext(invocation: Invocation): Promise<void> {
  const home = homeOf(invocation);
  const all = await readContexts(home);
  const context = findContext(all, invocation.args[0] ?? "");
  const contexts = all.contexts.filter((item) => item.name !== context.name);
  const wasCurrent = all.currentContext === context.name;
  await writeContexts(home, { contexts, currentContext: wasCurrent ? undefined : all.currentContext });
  // Delete only token files that add-context wrote.
  if (context.tokenFile !== undefined && dirname(context.tokenFile) === homePaths(home).tokensDirectory)
    await rm(context.tokenFile, { force: true });
  invocation.print.answer(`context ${context.name} deleted\n`);
  if (wasCurrent && contexts.length > 0) invocation.print.note('no current context; choose one with "coral config use-context <name>"');
}

/** Throws an error that lists the known names when there is no such context. */
function findContext({ contexts }: Contexts, name: string): Context {
  const found = contexts.find((context) => context.name === name);
  if (found) return found;
  const names = contexts.map((context) => context.name);
  const near = closest(name, names);
  const hint = near ? `did you mean "${near}"?` : names.length > 0 ? `known contexts: ${names.join(", ")}` : "there are no contexts";
  throw new CoralError({ code: "not-found", message: `Cannot find context "${name}": ${hint}`, details: { known: names } });
}
