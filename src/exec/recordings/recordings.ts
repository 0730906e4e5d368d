/** Terminal output as asciicast v2 files in one directory, with limits per file and in total. Input is not recorded: it may be a password. */

import { createHash } from "node:crypto";
import { createWriteStream, type WriteStream } from "node:fs";
import { mkdir, open, readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { CommandOutput, RunningCommand } from "../processes/running-command.ts";

/** `exec.recordings` of the agent's config. */
export interface RecordingSettings {
  enabled: boolean;
  /** Total of all recordings. */
  maxSizeBytes: number;
  maxAgeMs: number;
}

/** The recording of one terminal. Errors of the disk end the recording, not the terminal. */
export interface Recording {
  /** Empty when nothing is recorded. */
  readonly name: string;
  output(data: Uint8Array): void;
  resize(columns: number, rows: number): void;
  /** Resolves when the file is on disk, with its SHA-256 in hex; empty if there is no recording or it could not be written. */
  close(): Promise<string>;
}

/** The header of the asciicast file. */
export interface RecordingStart {
  commandId: string;
  columns: number;
  rows: number;
  terminalType: string;
  title: string;
}

/** A command id with the suffix: no slash, so that a name cannot leave the directory. */
const validName = /^[0-9a-f-]{8,64}\.cast$/;
/** Limit of one recording, as a share of the total. */
const shareOfAll = 0.25;
/** Bytes queued for a slow disk; beyond this the recording stops and the terminal continues. */
const maxWaitingBytes = 8 * 1024 * 1024;
/** Read at once. */
const pieceBytes = 64 * 1024;

const noRecording: Recording = { name: "", output: () => undefined, resize: () => undefined, close: async () => "" };

/** Old files are removed when a new recording starts, not by a timer. */
export class Recordings {
  readonly #directory: string;
  readonly #settings: () => RecordingSettings;
  readonly #log: Logger;

  constructor(directory: string, settings: () => RecordingSettings, log: Logger) {
    this.#directory = directory;
    this.#settings = settings;
    this.#log = log;
  }

  /** Returns a recording that does nothing if they are disabled. */
  async start(what: RecordingStart): Promise<Recording> {
    const { enabled, maxSizeBytes } = this.#settings();
    if (!enabled) return noRecording;
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
    await this.#prune();
    const name = `${what.commandId}.cast`;
    if (!validName.test(name))
      throw new CoralError({ code: "invalid", message: `Cannot record command "${what.commandId}": its id is not a UUID` });
    return new CastFile(name, join(this.#directory, name), what, maxSizeBytes * shareOfAll, this.#log);
  }

  /** The file in chunks. Throws `not-found` if it never existed or was removed. */
  async *read(name: string): AsyncGenerator<Uint8Array> {
    const problem = new CoralError({
      code: "not-found",
      message: `Cannot read recording "${name}": it does not exist, or was removed by retention`,
    });
    if (!validName.test(name)) throw problem;
    const file = await open(join(this.#directory, name), "r").catch(() => {
      throw problem;
    });
    try {
      for (;;) {
        const { buffer, bytesRead } = await file.read({ buffer: Buffer.alloc(pieceBytes) });
        if (bytesRead === 0) return;
        yield buffer.subarray(0, bytesRead);
      }
    } finally {
      await file.close();
    }
  }

  /** Removes expired recordings, then the oldest until the rest fits. */
  async #prune(): Promise<void> {
    const { maxSizeBytes, maxAgeMs } = this.#settings();
    const names = (await readdir(this.#directory)).filter((name) => validName.test(name));
    const files = await Promise.all(
      names.map(async (name) => {
        const path = join(this.#directory, name);
        const { size: sizeBytes, mtimeMs } = await stat(path);
        return { path, sizeBytes, mtimeMs };
      }),
    );
    files.sort((a, b) => b.mtimeMs - a.mtimeMs);
    let total = 0;
    for (const { path, sizeBytes, mtimeMs } of files) {
      total += sizeBytes;
      if (total > maxSizeBytes * (1 - shareOfAll) || Date.now() - mtimeMs > maxAgeMs) await rm(path, { force: true });
    }
  }
}

/** Lines `[seconds, "o", text]` after a header line. Incomplete UTF-8 is kept for the next line. */
class CastFile implements Recording {
  readonly name: string;
  readonly #file: WriteStream;
  readonly #startedMs = performance.now();
  readonly #decoder = new TextDecoder();
  readonly #maxBytes: number;
  readonly #log: Logger;
  readonly #hash = createHash("sha256");
  #bytes = 0;
  #isCut = false;
  #hasFailed = false;
  #closed: Promise<string> | undefined;

  constructor(name: string, path: string, { columns, rows, terminalType, title }: RecordingStart, maxBytes: number, log: Logger) {
    this.name = name;
    this.#maxBytes = maxBytes;
    this.#log = log;
    this.#file = createWriteStream(path, { flags: "wx", mode: 0o600 });
    this.#file.on("error", (error) => {
      if (!this.#isCut) log.warn(`terminal recording stopped: ${error.message}; the terminal continues`, { recording: name });
      this.#isCut = true;
      this.#hasFailed = true;
    });
    this.#write({
      version: 2,
      width: columns,
      height: rows,
      timestamp: Math.floor(Date.now() / 1_000),
      title,
      env: { TERM: terminalType, SHELL: "/bin/sh" },
    });
  }

  output(data: Uint8Array): void {
    const text = this.#decoder.decode(data, { stream: true });
    if (text !== "") this.#event("o", text);
  }

  resize(columns: number, rows: number): void {
    this.#event("r", `${columns}x${rows}`);
  }

  close(): Promise<string> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<string> {
    this.#isCut = true;
    const sha256 = this.#hash.digest("hex");
    if (!this.#file.destroyed) {
      await new Promise<void>((resolve) => {
        this.#file.once("close", resolve);
        this.#file.end();
      });
    }
    return this.#hasFailed ? "" : sha256;
  }

  #event(kind: "o" | "r" | "m", data: string): void {
    if (this.#isCut) return;
    if (this.#bytes > this.#maxBytes || this.#file.writableLength > maxWaitingBytes) {
      this.#write([this.#atS(), "m", "the recording ends here: size limit reached"]);
      this.#isCut = true;
      this.#log.warn("terminal recording stopped: size limit reached; the terminal continues", { recording: this.name });
      return;
    }
    this.#write([this.#atS(), kind, data]);
  }

  #atS(): number {
    return Math.round((performance.now() - this.#startedMs) * 1_000) / 1_000_000;
  }

  #write(value: unknown): void {
    const line = `${JSON.stringify(value)}\n`;
    this.#bytes += Buffer.byteLength(line);
    this.#hash.update(line);
    this.#file.write(line);
  }
}

/** Wraps a command so that its terminal output is recorded on its way to the reader. */
export function recorded(running: RunningCommand, recording: Recording): RunningCommand {
  async function* output(): AsyncGenerator<CommandOutput> {
    for await (const piece of running.output()) {
      recording.output(piece.data);
      yield piece;
    }
  }
  return {
    pid: running.pid,
    ended: running.ended,
    output,
    drain: () => running.drain(),
    write: (data) => running.write(data),
    endInput: () => running.endInput(),
    resize: (columns, rows) => {
      recording.resize(columns, rows);
      running.resize(columns, rows);
    },
    signal: (name) => running.signal(name),
    stop: (reason) => running.stop(reason),
    [Symbol.asyncDispose]: () => running[Symbol.asyncDispose](),
  };
}
