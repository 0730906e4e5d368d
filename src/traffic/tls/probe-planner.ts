/** Plans probes in a short-lived child process, so that this one neither holds the memory of the disassembler nor stalls. */

import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { CoralError } from "../../base/errors.ts";
import { takeBackPriority } from "../../host/index.ts";
import type { PlanProblem, ProbePlan } from "./probe-plan.ts";

export interface FileToPlan {
  /** Open for reading; owned by the caller. */
  readonly fd: number;
  /** The program itself, not a library. */
  readonly isExecutable: boolean;
}

/** Null for a file without TLS. `isFinal`: a retry would have the same result. */
export interface FilePlan {
  plan: ProbePlan | PlanProblem | null;
  isFinal: boolean;
}

export interface ProbePlanner {
  /** One result per file, in order. Rejects only when the signal aborts. */
  plan(files: readonly FileToPlan[], signal?: AbortSignal): Promise<FilePlan[]>;
}

export interface ProbePlannerOptions {
  /** Timeout of one process; default 20 s, a hundred times what a large program takes. */
  timeoutMs?: number;
  /** For tests: a program other than the bundle's. */
  childPath?: string;
}

/** Files per process. */
const maxFilesPerChild = 32;
/** The heap limit is a fuse: tables are read in pieces, and the disassembler's memory is outside the heap. */
const nodeFlags = ["--max-old-space-size=96", "--v8-pool-size=1"];

/** In the bundle every file is in dist/; from sources (tests) dist/ is three levels up. */
function builtChild(): string | undefined {
  return ["./tls-plan-child.js", "../../../dist/tls-plan-child.js"]
    .map((path) => fileURLToPath(new URL(path, import.meta.url)))
    .find((path) => existsSync(path));
}

export function createProbePlanner({ timeoutMs = 20_000, childPath }: ProbePlannerOptions = {}): ProbePlanner {
  return {
    plan: async (files, signal) => {
      const path = childPath ?? builtChild();
      if (path === undefined) return files.map(() => failed('the reader of machine code is not built; run "npm run setup"'));
      const plans: FilePlan[] = [];
      // Each round settles at least one file, so this ends.
      while (plans.length < files.length) {
        const part = files.slice(plans.length, plans.length + maxFilesPerChild);
        plans.push(...(await runChild(path, part, timeoutMs, signal)));
      }
      return plans;
    },
  };
}

function failed(problem: string): FilePlan {
  return { plan: { library: "openssl", problem }, isFinal: false };
}

/** Results for the first files, up to the one at which the process died; for all of them if it did not start. */
async function runChild(path: string, files: readonly FileToPlan[], timeoutMs: number, signal?: AbortSignal): Promise<FilePlan[]> {
  signal?.throwIfAborted();
  let child: ReturnType<typeof start>;
  try {
    child = start(path, files);
  } catch (error) {
    // Such as no memory for another process.
    return files.map(() => failed(`its machine code could not be read: ${CoralError.from(error).message}`));
  }
  const end = (): boolean => child.kill("SIGKILL");
  const timer = setTimeout(end, timeoutMs);
  signal?.addEventListener("abort", end, { once: true });
  const ended = new Promise<string>((resolve) => {
    child.on("error", (error) => resolve(error.message));
    child.on("close", (code, signalName) => resolve(signalName ?? `exit code ${code}`));
  });
  const plans: FilePlan[] = [];
  let begun = 0;
  try {
    for await (const line of createInterface({ input: child.stdout ?? Readable.from([]) })) {
      const { begin, plan } = readLine(line);
      if (begin !== undefined) begun++;
      if (plan !== undefined) plans.push({ plan, isFinal: true });
    }
    const reason = await ended;
    signal?.throwIfAborted();
    const how = reason === "SIGKILL" ? `did not end within ${timeoutMs} ms` : `ended with ${reason}`;
    const failure = failed(`the process that reads its machine code ${how}`);
    if (begun === 0) return files.map(() => failure);
    return plans.length < files.length ? [...plans, failure] : plans;
  } finally {
    end();
    clearTimeout(timer);
    signal?.removeEventListener("abort", end);
  }
}

/** Files are passed by descriptor: their names are valid only in their mount namespaces. */
function start(path: string, files: readonly FileToPlan[]): ChildProcess {
  const kinds = files.map(({ isExecutable }) => (isExecutable ? "program" : "library"));
  const child = spawn(process.execPath, [...nodeFlags, path, ...kinds], {
    stdio: ["ignore", "pipe", "ignore", ...files.map(({ fd }) => fd)],
  });
  // This process has a raised priority to drain its ring; planning does not need it.
  if (child.pid !== undefined) takeBackPriority(child.pid);
  return child;
}

function readLine(line: string): { begin?: number; plan?: FilePlan["plan"] } {
  try {
    return JSON.parse(line) as { begin?: number; plan?: FilePlan["plan"] };
  } catch {
    // Truncated when the process died.
    return {};
  }
}
