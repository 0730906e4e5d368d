/** Follows the systemd journal with `journalctl`: its on-disk format is internal to systemd. */

import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";

export interface JournalRecord {
  message: string;
  /** 0 (emergency) to 7 (debug); null when the sender gave none. */
  priority: number | null;
  /** Microseconds since 1970. */
  timeUs: number;
  pid: number | null;
}

export interface JournalTailOptions {
  units: readonly string[];
  /** Where to resume; undefined: from now on. */
  cursor: string | undefined;
  /** Default `journalctl`. */
  program?: string;
  /** Default 64 KiB. */
  maxLineBytes?: number;
}

/** Maximum number of queued records; the journal is not read while the queue is full. */
const maxWaiting = 2_000;
const restartWaitMs = 5_000;

export class JournalTail {
  readonly #options: JournalTailOptions;
  #child: ChildProcess | undefined;
  #pause: (() => void) | undefined;
  #resume: (() => void) | undefined;
  #waiting: { record: JournalRecord; cursor: string }[] = [];
  /** Records of the last `take`, with the cursor before it. */
  #taken: { records: { record: JournalRecord; cursor: string }[]; before: string | undefined } = { records: [], before: undefined };
  #startedAtMs = Number.NEGATIVE_INFINITY;
  /** Cursor after the last returned record. */
  cursor: string | undefined;
  /** Lines that were not valid records or not text. */
  unreadable = 0;
  /** Why the journal cannot be read; empty if it can. */
  problem = "";

  constructor(options: JournalTailOptions) {
    this.#options = options;
    this.cursor = options.cursor;
  }

  /** Records since the last call, up to a limit. Starts `journalctl`, and restarts it when it has exited. */
  take(max: number, nowMs: number): JournalRecord[] {
    if (this.#child === undefined && nowMs - this.#startedAtMs >= restartWaitMs) {
      this.#startedAtMs = nowMs;
      this.#start();
    }
    const taken = this.#waiting.splice(0, max);
    this.#taken = { records: taken, before: this.cursor };
    this.cursor = taken.at(-1)?.cursor ?? this.cursor;
    if (this.#waiting.length < maxWaiting) this.#resume?.();
    return taken.map(({ record }) => record);
  }

  /** Returns the records of the last `take` again: they could not be stored. */
  undo(): void {
    this.#waiting.unshift(...this.#taken.records);
    this.cursor = this.#taken.before;
    this.#taken = { records: [], before: this.cursor };
  }

  close(): void {
    const child = this.#child;
    this.#child = undefined;
    this.#waiting = [];
    child?.kill("SIGTERM");
  }

  #start(): void {
    const { units, program = "journalctl" } = this.#options;
    // Resume after the queued records, not after the returned ones.
    const cursor = this.#waiting.at(-1)?.cursor ?? this.cursor;
    const from = cursor === undefined ? ["--lines=0"] : [`--after-cursor=${cursor}`, "--no-tail"];
    const args = ["--follow", "--output=json", "--no-pager", "--quiet", ...from, ...units.map((unit) => `--unit=${unit}`)];
    const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
    this.#child = child;
    let stderr = "";
    child.stderr.on("data", (chunk: Buffer) => {
      stderr = (stderr + chunk.toString()).slice(-500);
    });
    child.on("error", (error) => this.#ended(child, error.message));
    // Not "exit": stderr may still arrive after it.
    child.on("close", (code) =>
      this.#ended(child, `journalctl exited with ${code ?? "a signal"}${stderr === "" ? "" : `: ${stderr.trim()}`}`),
    );
    const lines = createInterface({ input: child.stdout });
    this.#pause = () => lines.pause();
    this.#resume = () => lines.resume();
    lines.on("line", (line) => this.#line(child, line));
  }

  #ended(child: ChildProcess, problem: string): void {
    if (this.#child !== child) return;
    this.#child = undefined;
    this.problem = problem;
  }

  #line(child: ChildProcess, line: string): void {
    if (this.#child !== child) return;
    const found = recordIn(line, this.#options.maxLineBytes ?? 64 * 1_024);
    if (found === undefined) {
      this.unreadable++;
      return;
    }
    this.problem = "";
    this.#waiting.push(found);
    if (this.#waiting.length >= maxWaiting) this.#pause?.();
  }
}

/** Undefined for anything but a record with text. */
export function recordIn(line: string, maxBytes: number): { record: JournalRecord; cursor: string } | undefined {
  let fields: unknown;
  try {
    fields = JSON.parse(line);
  } catch {
    // A partial line of a killed journalctl.
    return undefined;
  }
  if (typeof fields !== "object" || fields === null) return undefined;
  const { MESSAGE, PRIORITY, __REALTIME_TIMESTAMP, __CURSOR, _PID } = fields as Record<string, unknown>;
  const message = messageOf(MESSAGE);
  if (message === undefined || typeof __CURSOR !== "string") return undefined;
  const priority = Number(PRIORITY ?? Number.NaN);
  const pid = Number(_PID ?? Number.NaN);
  return {
    cursor: __CURSOR,
    record: {
      message: message.slice(0, maxBytes),
      priority: Number.isInteger(priority) && priority >= 0 && priority <= 7 ? priority : null,
      timeUs: Number(__REALTIME_TIMESTAMP) || 0,
      pid: Number.isInteger(pid) ? pid : null,
    },
  };
}

/** The journal writes non-text as a list of bytes, and omits values that are very long. */
function messageOf(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  if (!Array.isArray(value) || !value.every((byte) => typeof byte === "number")) return undefined;
  const bytes = Buffer.from(value);
  return bytes.includes(0) ? undefined : bytes.toString("utf8");
}
