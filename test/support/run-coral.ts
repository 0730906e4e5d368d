import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { cleanEnvironment } from "./test-home.ts";

/** The command as users run it; the bundle must be built (`npm test` does). */
export const coralFile = fileURLToPath(new URL("../../bin/coral", import.meta.url));

export interface CoralRun {
  /** Null when a signal ended it. */
  code: number | null;
  stdout: string;
  stderr: string;
}

export interface RunCoralOptions {
  home: string;
  env?: Record<string, string>;
  /** Written to stdin, which is then closed. */
  input?: string;
  /** Default 60 s; the command is killed then. */
  timeoutMs?: number;
}

/** Runs `coral …` to its end, whatever its exit code. */
export function runCoral(args: readonly string[], { home, env, input = "", timeoutMs = 60_000 }: RunCoralOptions): Promise<CoralRun> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [coralFile, ...args], {
      env: cleanEnvironment(home, env),
      stdio: "pipe",
      timeout: timeoutMs,
      killSignal: "SIGKILL",
    });
    let stdout = "";
    let stderr = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    // A command that does not read its input may be gone before it is written.
    child.stdin.on("error", () => undefined);
    child.stdin.end(input);
    child.once("error", reject);
    child.once("close", (code) => resolve({ code, stdout, stderr }));
  });
}

/** Runs `coral … --json` and gives what it printed; throws with its message when it failed. */
export async function coralJson<T>(args: readonly string[], options: RunCoralOptions): Promise<T> {
  const { code, stdout, stderr } = await runCoral([...args, "--json"], options);
  if (code !== 0) throw new Error(`coral ${args.join(" ")} ended with code ${code}: ${stderr || stdout}`);
  return JSON.parse(stdout) as T;
}
