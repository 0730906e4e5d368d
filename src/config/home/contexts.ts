/**
 * The CLI's contexts, `config.yaml`: which colonies this user knows. Every command reads it: the form that coral writes needs no library, other YAML
 * loads the parser, and only a malformed file loads the schema.
 */

import { readdir, readFile } from "node:fs/promises";
import { CoralError } from "../../base/errors.ts";
import { isJsonObject } from "../../base/exact-json.ts";
import { given } from "../../base/given.ts";
import { colonyPaths, homePaths, isColonyId } from "./home.ts";
import { writePrivateFile } from "./ownership.ts";
import { parseSimpleContexts } from "./simple-contexts.ts";

export interface Context {
  /** What users type: `shop-dev`. */
  name: string;
  colonyId: string;
  /** `host:port` of a remote colony; absent when it lives under this CORAL_HOME. */
  endpoint?: string;
  /** SHA-256 of the colony's CA certificate, hex; pins a remote colony. */
  caFingerprint?: string;
  /** File with the user token, 0600. */
  tokenFile?: string;
}

export interface Contexts {
  currentContext: string | undefined;
  contexts: Context[];
}

const textKeys = {
  name: "name",
  colony_id: "colonyId",
  endpoint: "endpoint",
  ca_fingerprint: "caFingerprint",
  token_file: "tokenFile",
} as const;

/** Empty when there is no file. A malformed file is read again with the schema, whose error names line and key. */
export async function readContexts(home: string): Promise<Contexts> {
  const path = homePaths(home).configFile;
  // Absent or unreadable: the YAML reader below distinguishes the two and reports the reason.
  const text = await readFile(path, "utf8").catch(() => undefined);
  const read = contextsOf((text === undefined ? undefined : parseSimpleContexts(text)) ?? (await readAsYaml(path)));
  if (read) return read;
  const { checkContextsFile } = await import("./cli-config.ts");
  await checkContextsFile(path);
  throw new CoralError({
    code: "invalid",
    message: `Cannot read contexts "${path}": run "coral config validate ${path}"`,
    details: { file: path },
  });
}

/** Reads any form other than the one coral writes; also reports why a file cannot be read. */
async function readAsYaml(path: string): Promise<unknown> {
  const { readYamlFile } = await import("../schema/yaml-file.ts");
  return (await readYamlFile(path, "contexts"))?.value ?? {};
}

/** Sorted ids of the colonies under this home. */
export async function listLocalColonies(home: string): Promise<string[]> {
  try {
    const entries = await readdir(homePaths(home).coloniesDirectory, { withFileTypes: true });
    return entries.flatMap((entry) => (entry.isDirectory() && isColonyId(entry.name) ? [entry.name] : [])).sort();
  } catch (error) {
    // No colony has been created here yet.
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    if (code === "ENOENT") return [];
    if (code === "ENOTDIR")
      throw new CoralError({
        code: "invalid",
        message: `Cannot use CORAL_HOME "${home}": it, or a part of its path, is a file, not a directory`,
      });
    throw new CoralError({
      code: "not-permitted",
      message: `Cannot list colonies in "${homePaths(home).coloniesDirectory}": ${error instanceof Error ? error.message : String(error)}; check the owner of CORAL_HOME`,
      cause: error,
    });
  }
}

/** A colony the CLI can talk to. */
export type ColonyTarget =
  | { kind: "local"; colonyId: string; contextName: string | undefined; socketFile: string }
  | {
      kind: "remote";
      colonyId: string;
      contextName: string;
      endpoint: string;
      caFingerprint: string | undefined;
      tokenFile: string | undefined;
    };

/**
 * Resolves the colony of a command: `wanted` (context name or colony id, from --colony or CORAL_COLONY), else the current context,
 * else the only colony under this home.
 */
export async function resolveColony(home: string, wanted: string | undefined): Promise<ColonyTarget> {
  const [{ contexts, currentContext }, local] = await Promise.all([readContexts(home), listLocalColonies(home)]);
  const name = wanted ?? currentContext;
  if (name === undefined) return onlyColony(home, contexts, local);
  const context = contexts.find((item) => item.name === name) ?? contexts.find((item) => item.colonyId === name);
  if (context) return targetOf(home, context, local);
  if (local.includes(name)) return localTarget(home, name, undefined);
  const { closest } = await import("../../base/closest.ts");
  const known = [...contexts.map((item) => item.name), ...local];
  const near = closest(name, known);
  const hint = near
    ? `did you mean "${near}"?`
    : known.length > 0
      ? `known: ${[...new Set(known)].join(", ")}`
      : 'make one with "coral init <app>" or start "coral up"';
  throw new CoralError({
    code: "not-found",
    message: `Cannot find colony "${name}"${wanted === undefined ? " of the current context" : ""}: no context and no colony under ${home} has that name; ${hint}`,
    details: { wanted: name, known },
  });
}

function onlyColony(home: string, contexts: readonly Context[], local: readonly string[]): ColonyTarget {
  const [first, ...more] = local;
  if (first !== undefined && more.length === 0) return localTarget(home, first, contexts.find((item) => item.colonyId === first)?.name);
  const [context, ...moreContexts] = contexts;
  if (first === undefined && context && moreContexts.length === 0) return targetOf(home, context, local);
  if (first === undefined && !context) {
    throw new CoralError({
      code: "not-found",
      message: `Cannot find a colony: there is none under ${home}; start one with "coral up", or make one with "coral init <app>"`,
    });
  }
  const names = [...new Set([...contexts.map((item) => item.name), ...local])];
  throw new CoralError({
    code: "usage",
    message: `Cannot choose a colony: there are several (${names.join(", ")}); add --colony <name>, or run "coral config use-context <name>"`,
    details: { known: names },
  });
}

function targetOf(home: string, context: Context, local: readonly string[]): ColonyTarget {
  if (local.includes(context.colonyId)) return localTarget(home, context.colonyId, context.name);
  if (context.endpoint !== undefined) {
    const { colonyId, name, endpoint, caFingerprint, tokenFile } = context;
    return { kind: "remote", colonyId, contextName: name, endpoint, caFingerprint, tokenFile };
  }
  throw new CoralError({
    code: "not-found",
    message: `Cannot reach colony "${context.colonyId}" of context "${context.name}": it has no directory under ${home} and the context no endpoint; add one with "coral config add-context ${context.name} --token <token>"`,
  });
}

function localTarget(home: string, colonyId: string, contextName: string | undefined): ColonyTarget {
  return { kind: "local", colonyId, contextName, socketFile: colonyPaths(home, colonyId).socketFile };
}

/** Undefined when the shape is not exactly what is expected. */
function contextsOf(value: unknown): Contexts | undefined {
  if (!isJsonObject(value) || Object.keys(value).some((key) => key !== "current_context" && key !== "contexts")) return undefined;
  const { current_context: current, contexts = [] } = value;
  if (current !== undefined && typeof current !== "string") return undefined;
  if (!Array.isArray(contexts)) return undefined;
  const read: Context[] = [];
  for (const item of contexts) {
    if (!isJsonObject(item)) return undefined;
    const entries = Object.entries(item);
    if (entries.some(([key, text]) => !Object.hasOwn(textKeys, key) || typeof text !== "string")) return undefined;
    const context = Object.fromEntries(entries.map(([key, text]) => [textKeys[key as keyof typeof textKeys], text])) as Partial<Context>;
    const { name, colonyId } = context;
    if (!name || !colonyId || !isColonyId(colonyId) || read.some((other) => other.name === name)) return undefined;
    read.push({ ...context, name, colonyId });
  }
  return { currentContext: current, contexts: read };
}

/** Replaces the whole file; comments added by hand are lost. */
export async function writeContexts(home: string, next: Contexts): Promise<void> {
  const yaml = await import("../schema/yaml-library.ts");
  const path = homePaths(home).configFile;
  const lines = next.contexts.map((context) => ({
    name: context.name,
    colony_id: context.colonyId,
    ...given({ endpoint: context.endpoint, ca_fingerprint: context.caFingerprint, token_file: context.tokenFile }),
  }));
  const body = { ...(next.currentContext === undefined ? {} : { current_context: next.currentContext }), contexts: lines };
  await writePrivateFile(
    path,
    `# Colonies that this user's coral commands know. Written by coral; see docs/config.md.\n${yaml.stringify(body)}`,
  );
}

/** Adds or replaces the context of that name; makes it current if requested, or if it is the first. */
export async function saveContext(home: string, context: Context, options: { makeCurrent?: boolean } = {}): Promise<void> {
  const { contexts, currentContext } = await readContexts(home);
  const others = contexts.filter((item) => item.name !== context.name);
  const current = options.makeCurrent || others.length === 0 ? context.name : currentContext;
  await writeContexts(home, { contexts: [...others, context], currentContext: current });
}
