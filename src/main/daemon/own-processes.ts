import { readdirSync } from "node:fs";
import { colonyPaths, homePaths } from "../../config/index.ts";
import { runningHolder } from "./pid-file.ts";

/** Colonies of this home that run now, by process id: their requests are Coral's own. Asked by the agent after each scan, so without waiting. */
export function runningColonyPids(home: string): number[] {
  try {
    return readdirSync(homePaths(home).coloniesDirectory).flatMap((id) => runningHolder(colonyPaths(home, id).pidFile)?.pid ?? []);
  } catch {
    // No colony here, or none that this user may look at: then there is nothing to leave out.
    return [];
  }
}
