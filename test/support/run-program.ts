import { spawn } from "node:child_process";

export interface ProgramRun {
  /** Null if a signal ended the program. */
  code: number | null;
  stdout: string;
  stderr: string;
}

export interface RunProgramOptions {
  /** The complete environment. */
  env: Record<string, string>;
  cwd?: string;
  /** Written to stdin, which is then closed. */
  input?: string;
  /** The program is killed after this time. Default 120 s. */
  timeoutMs?: number;
}

/** Runs a program to its end; does not throw on a failing exit code. */
export function runProgram(file: string, args: readonly string[], options: RunProgramOptions): Promise<ProgramRun> {
  const { env, cwd, input = "", timeoutMs = 120_000 } = options;
  return new Promise((resolve, reject) => {
    const child = spawn(file, args, { env, cwd, stdio: "pipe", timeout: timeoutMs, killSignal: "SIGKILL" });
    let stdout = "";
    let stderr = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
    // A program that does not read its input may end before the write.
    child.stdin.on("error", () => undefined);
    child.stdin.end(input);
    child.once("error", reject);
    child.once("close", (code) => resolve({ code, stdout, stderr }));
  });
}
