import { basename } from "node:path";
import { CoralError } from "../../../base/errors.ts";
import {
  agentPaths,
  checkContextsFile,
  colonyPaths,
  homePaths,
  listLocalColonies,
  loadAgentConfig,
  loadColonyConfig,
} from "../../../config/index.ts";
import type { CliRuntime } from "../../run/runtime.ts";

export type ConfigKind = "agent" | "colony" | "contexts";

/** `colonyId` is set for the config of a colony of this home. */
export interface ConfigFile {
  kind: ConfigKind;
  path: string;
  colonyId?: string;
}

/** Every config file that this home may have; they need not exist. */
export async function configFilesOf(home: string): Promise<ConfigFile[]> {
  const colonies = await listLocalColonies(home);
  return [
    { kind: "contexts", path: homePaths(home).configFile },
    ...colonies.map((colonyId): ConfigFile => ({ kind: "colony", path: colonyPaths(home, colonyId).configFile, colonyId })),
    { kind: "agent", path: agentPaths(home).configFile },
  ];
}

/** Guesses the kind from the file name; a daemon accepts any name through --config. */
export function kindOfFile(path: string): ConfigKind {
  const name = basename(path);
  if (name.startsWith("agent")) return "agent";
  if (name.startsWith("colony")) return "colony";
  if (name === "config.yaml" || name === "config.yml") return "contexts";
  throw new CoralError({
    code: "usage",
    message: `Cannot detect what "${path}" configures: set --kind agent, --kind colony or --kind contexts`,
  });
}

/** Throws what the daemon would throw. Environment variables are ignored, because the file itself is being checked. */
export async function checkConfigFile(home: string, file: ConfigFile, runtime: CliRuntime): Promise<void> {
  switch (file.kind) {
    case "agent":
      await loadAgentConfig({ home, file: file.path, env: {} });
      return;
    case "colony":
      await loadColonyConfig({ home, colonyId: file.colonyId ?? "any", file: file.path, env: {}, signals: await runtime.signalNames() });
      return;
    case "contexts":
      await checkContextsFile(file.path);
  }
}
