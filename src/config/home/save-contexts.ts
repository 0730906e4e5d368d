/** Changes the contexts file. Reading it is in `contexts.ts`, which every command loads. */

import { given } from "../../base/given.ts";
import { type Context, type Contexts, readContexts } from "./contexts.ts";
import { homePaths } from "./home.ts";
import { writePrivateFile } from "./ownership.ts";

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
