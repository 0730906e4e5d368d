import { execFileSync } from "node:child_process";

/** Whether PATH has this program. */
export function hasProgram(name: string): boolean {
  try {
    execFileSync("sh", ["-c", 'command -v "$1"', "sh", name], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/** The reason why a test that starts these programs cannot run here; undefined when it can. */
export function programsSkipReason(...names: readonly string[]): string | undefined {
  const missing = names.filter((name) => !hasProgram(name));
  return missing.length > 0 ? `needs ${missing.join(", ")}` : undefined;
}
