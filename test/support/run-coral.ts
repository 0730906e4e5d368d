import { fileURLToPath } from "node:url";
import { type ProgramRun, type RunProgramOptions, runProgram } from "./run-program.ts";
import { cleanEnvironment } from "./test-home.ts";

/** The `coral` command. It needs the bundle, which `npm test` builds. */
export const coralFile = fileURLToPath(new URL("../../bin/coral", import.meta.url));

export interface RunCoralOptions extends Omit<RunProgramOptions, "env" | "cwd"> {
  home: string;
  env?: Record<string, string>;
}

/** Runs `coral …` to its end; does not throw on a failing exit code. */
export function runCoral(args: readonly string[], { home, env, ...options }: RunCoralOptions): Promise<ProgramRun> {
  return runProgram(process.execPath, [coralFile, ...args], { env: cleanEnvironment(home, env), ...options });
}

/** Runs `coral … --json` and returns the parsed output. Throws with its stderr if it failed. */
export async function coralJson<T>(args: readonly string[], options: RunCoralOptions): Promise<T> {
  const { code, stdout, stderr } = await runCoral([...args, "--json"], options);
  if (code !== 0) throw new Error(`coral ${args.join(" ")} ended with code ${code}: ${stderr || stdout}`);
  return JSON.parse(stdout) as T;
}
