import { spawn } from "node:child_process";

export interface ProgramRun {
  /** Null when a signal ended it. */
  code: number | null;
  stdout: string;
  stderr: string;
}

export interface RunProgramOptions {
  /** The whole environment. */
  env: Record<string, string>;
  cwd?: string;
  /** Written to stdin, which is then closed. */
  input?: string;
  /** Default 60 s; the program is killed then. */
  timeoutMs?: number;
}

/** Runs any program to its end, whatever its exit code. */
export function runProgram(file: string, args: readonly string[], options: RunProgramOptions): Promise<ProgramRun> {
  const { env, cwd, input = "", timeoutMs = 60_000 } = options;
  return new Promise((resolve, reject) => {
    const child = spawn(file, args, { env, cwd, stdio: "pipe", timeout: timeoutMs, killSignal: "SIGKILL" });
    let stdout = "";
    let stderr = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    // A program that does not read its input may be gone before it is written.
    child.stdin.on("error", () => undefined);
    child.stdin.end(input);
    child.once("error", reject);
    child.once("close", (code) => resolve({ code, stdout, stderr }));
  });
}
