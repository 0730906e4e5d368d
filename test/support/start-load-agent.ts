import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { agentPaths } from "../../src/config/index.ts";
import { type DaemonProcess, spawnNode } from "./daemon.ts";

export interface LoadAgentSettings {
  home: string;
  /** Number of this agent's start; part of every row's identity. */
  run: number;
  notesFile: string;
  /** Default: the endpoint in the join token. */
  endpoint?: string;
  machineId: string;
  rowsPerAppend: number;
  /** Pause between two appends of one signal. */
  pauseMs: number;
  /** Memory limit of the engine. DuckDB checkpoints when the WAL reaches a quarter of it. */
  memoryBytes: number;
}

export interface StartLoadAgentOptions extends Partial<LoadAgentSettings> {
  home: string;
  token?: string;
}

const checkout = fileURLToPath(new URL("../../", import.meta.url));
let program: Promise<string> | undefined;

/** Bundled inside the checkout, so that Node resolves native packages from there. */
function loadAgentFile(): Promise<string> {
  program ??= (async () => {
    const { outputFiles } = await build({
      entryPoints: [join(checkout, "test/support/load-agent.ts")],
      bundle: true,
      platform: "node",
      format: "esm",
      target: "node20",
      mainFields: ["module", "main"],
      external: ["@duckdb/*", "koffi"],
      banner: { js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);' },
      logLevel: "silent",
      write: false,
    });
    const file = join(checkout, "build/test/load-agent.mjs");
    mkdirSync(dirname(file), { recursive: true });
    // Atomic rename: another test may be starting the program at the same time.
    writeFileSync(`${file}.${process.pid}`, outputFiles[0]?.contents ?? "");
    renameSync(`${file}.${process.pid}`, file);
    return file;
  })();
  return program;
}

/** Starts the load agent; see load-agent.ts. It is ready when it prints "load agent is ready". */
export async function startLoadAgent(options: StartLoadAgentOptions): Promise<DaemonProcess> {
  const { token, ...given } = options;
  const settings: LoadAgentSettings = {
    run: 0,
    notesFile: notesFileOf(options.home),
    machineId: "machine",
    rowsPerAppend: 20,
    pauseMs: 10,
    memoryBytes: 32 * 1024 * 1024,
    ...given,
  };
  const env = { LOAD_AGENT: JSON.stringify(settings), ...(token === undefined ? {} : { CORAL_JOIN_TOKEN: token }) };
  return spawnNode("load agent", ["--enable-source-maps", await loadAgentFile()], options.home, env);
}

function notesFileOf(home: string): string {
  return join(home, "load-agent-notes");
}

export interface Acknowledged {
  signal: string;
  firstSeq: number;
  lastSeq: number;
  epoch: string;
  run: number;
  firstNumber: number;
}

export interface LoadNotes {
  acknowledged: Acknowledged[];
  refused: { signal: string; rows: number; code: string; reason: string }[];
}

/** Append results that the load agents of this home logged. A last line that a kill truncated is ignored. */
export function readLoadNotes(home: string): LoadNotes {
  const notes: LoadNotes = { acknowledged: [], refused: [] };
  const file = notesFileOf(home);
  if (!existsSync(file)) return notes;
  for (const line of readFileSync(file, "utf8").split("\n").slice(0, -1)) {
    const [kind, signal = "", ...rest] = line.split(" ");
    if (kind === "ok") {
      const [firstSeq, lastSeq, epoch = "", run, firstNumber] = rest;
      notes.acknowledged.push({
        signal,
        firstSeq: Number(firstSeq),
        lastSeq: Number(lastSeq),
        epoch,
        run: Number(run),
        firstNumber: Number(firstNumber),
      });
    } else if (kind === "no") {
      const [rows, code = "", ...reason] = rest;
      notes.refused.push({ signal, rows: Number(rows), code, reason: reason.join(" ") });
    }
  }
  return notes;
}

/** The stable id of the load agent in this home. */
export function loadAgentIdOf(home: string): string {
  return readFileSync(agentPaths(home).idFile, "utf8").trim();
}
