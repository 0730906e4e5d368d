/**
 * Tails the log files and journals that the config lists: reads a bounded amount per round, encodes it like an exporter's request, and saves
 * offsets. Faster input waits in its file. After a crash, lines of the last second may be read twice.
 */

import { readFile, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { setImmediate } from "node:timers/promises";
import type { Clock } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { formatBytes } from "../../base/units.ts";
import { type FileOwner, type ServiceLogsConfig, writePrivateFile } from "../../config/index.ts";
import { continuesRecord, expandPaths, FileTail, type JournalRecord, JournalTail, type TailPosition } from "../../host/index.ts";
import { encodeLogLines, type LogLine, parseLogLine, severityOfPriority } from "../../otlp/index.ts";
import { type AgentSegments } from "../../store/segments/index.ts";
import { logRecord } from "../../store/signals/index.ts";

export interface LogTailsOptions {
  services: () => readonly ServiceLogsConfig[];
  segments: () => Pick<AgentSegments, "append"> | undefined;
  /** Stores offsets. */
  file: string;
  owner: FileOwner | undefined;
  hostName: string;
  /** Default `journalctl`. */
  journalProgram?: string;
  clock: Clock;
  log: Logger;
}

/** Per file and round; two rounds a second. */
const roundBytes = 256 * 1024;
/** Journal records per unit and round. */
const roundRecords = 2_000;
/** Lines encoded before yielding to the event loop: a few milliseconds. */
const sliceLines = 100;
/** Open log files of all patterns together. */
const maxFiles = 200;
/** Identities of files read earlier; the oldest is dropped. */
const maxInodes = 1_000;
/** Offsets are saved at most this often, so a crash repeats at most this much. */
const saveIntervalMs = 1_000;
/** How often patterns are expanded to find new files. */
const expandIntervalMs = 5_000;
/** Longest joined record of the journal, such as a stack trace. */
const maxRecordCharacters = 64 * 1024;

interface Positions {
  files: Record<string, TailPosition & { service: string }>;
  journals: Record<string, string>;
}

interface Tail {
  service: string;
  path: string;
  tail: FileTail;
}

/** Call `round` periodically. A round reads every file and unit once, within the limits above. */
export class LogTails implements AsyncDisposable {
  readonly #options: LogTailsOptions;
  readonly #tails = new Map<string, Tail>();
  readonly #journals = new Map<string, { service: string; tail: JournalTail }>();
  readonly #problems = new Map<string, string>();
  /** Offsets by device and inode: a renamed file is not read again. */
  readonly #inodes = new Map<string, TailPosition>();
  /** Patterns that were expanded before: files that they match later are new. */
  #expanded = new Set<string>();
  #positions: Positions | undefined;
  #saved = "";
  #savedAtMs = Number.NEGATIVE_INFINITY;
  #expandedAtMs = Number.NEGATIVE_INFINITY;
  /** Wall time of the last expansion. */
  #lookedAtMs = 0;

  constructor(options: LogTailsOptions) {
    this.#options = options;
  }

  /** Sentences about files and journals that cannot be read, or only in part. */
  notes(): string[] {
    const journals = [...this.#journals.values()].filter(({ tail }) => tail.problem !== "");
    return [
      ...[...this.#problems].map(([path, problem]) => `Cannot read the log file "${path}": ${problem}`),
      ...[...this.#tails.values()]
        .map(({ path, tail }) => [path, skippedText(tail.counts)])
        .filter(([, text]) => text !== "")
        .map(([path, text]) => `Log file "${path}": ${text}`),
      ...journals.map(({ service, tail }) => `Cannot read the journal of "${service}": ${tail.problem}`),
    ].slice(0, 20);
  }

  /** Totals of all files since the start. */
  counts(): { lines: number; cutLines: number; binaryLines: number; skippedBytes: number } {
    const sum = { lines: 0, cutLines: 0, binaryLines: 0, skippedBytes: 0 };
    for (const { tail } of this.#tails.values()) {
      sum.lines += tail.counts.lines;
      sum.cutLines += tail.counts.cutLines;
      sum.binaryLines += tail.counts.binaryLines;
      sum.skippedBytes += tail.counts.skippedBytes;
    }
    return sum;
  }

  /** The config lists no logs, and none are open. */
  get isIdle(): boolean {
    return this.#options.services().length === 0 && this.#tails.size === 0 && this.#journals.size === 0;
  }

  /** Reads new lines once. Throws when the store rejects them; they are read again in the next round. */
  async round(): Promise<void> {
    const { clock } = this.#options;
    if (this.isIdle) return;
    const services = this.#options.services();
    this.#positions ??= await this.#load();
    const nowMs = clock.monotonicMs();
    if (nowMs - this.#expandedAtMs >= expandIntervalMs) {
      this.#expandedAtMs = nowMs;
      await this.#expand(services);
    }
    for (const tail of this.#tails.values()) await this.#readFile(tail, nowMs);
    for (const [key, journal] of this.#journals) await this.#readJournal(key, journal.service, journal.tail, nowMs);
    if (nowMs - this.#savedAtMs < saveIntervalMs) return;
    this.#savedAtMs = nowMs;
    await this.#save();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#positions) await this.#save();
    for (const { tail } of this.#journals.values()) tail.close();
    for (const { tail } of this.#tails.values()) await tail.close();
    this.#tails.clear();
    this.#journals.clear();
  }

  /** Opens files that match now, and closes those that no longer do. */
  async #expand(services: readonly ServiceLogsConfig[]): Promise<void> {
    const lookedAtMs = this.#lookedAtMs;
    this.#lookedAtMs = this.#options.clock.wallMs();
    const wanted = new Map<string, ServiceLogsConfig & { isExpanded: boolean }>();
    const expanded = new Set<string>();
    for (const service of services) {
      for (const pattern of service.files) {
        const key = `${service.service}\n${pattern}`;
        expanded.add(key);
        const isExpanded = this.#expanded.has(key);
        for (const path of await expandPaths(pattern, maxFiles))
          if (wanted.size < maxFiles && !wanted.has(path)) wanted.set(path, { ...service, isExpanded });
      }
    }
    this.#expanded = expanded;
    for (const [path, { tail }] of this.#tails) {
      if (wanted.has(path)) continue;
      this.#tails.delete(path);
      this.#problems.delete(path);
      await tail.close();
    }
    const known = new Set(Object.entries(this.#positions?.files ?? {}).map(([path, { service }]) => folderOf(service, path)));
    for (const [path, { service, fromStart, isExpanded }] of wanted) {
      const before = this.#tails.get(path);
      if (before?.service === service) continue;
      const position = this.#positions?.files[path] ?? (await this.#positionOf(path));
      if (position === "being read") continue;
      await before?.tail.close();
      // A file that appeared since the last expansion, or in a known directory of its service, is read from its first line.
      const isNew = isExpanded || known.has(folderOf(service, path));
      this.#tails.set(path, {
        service,
        path,
        tail: new FileTail({ path, position, fromStart: fromStart || isNew, ...(isExpanded && { appearedAfterMs: lookedAtMs }) }),
      });
    }
    this.#openJournals(services);
  }

  /** The offset of an unknown path whose file was read under another name. */
  async #positionOf(path: string): Promise<TailPosition | "being read" | undefined> {
    const facts = await stat(path).catch(() => undefined); // absent: the file has no offset
    if (facts === undefined) return undefined;
    const isBeingRead = [...this.#tails.values()].some(
      ({ tail, path: other }) => other !== path && tail.position?.inode === facts.ino && tail.position.device === facts.dev,
    );
    return isBeingRead ? "being read" : this.#inodes.get(`${facts.dev}:${facts.ino}`);
  }

  #keepOffset(position: TailPosition | undefined): void {
    if (position === undefined) return;
    const key = `${position.device}:${position.inode}`;
    this.#inodes.delete(key);
    this.#inodes.set(key, position);
    const [oldest] = this.#inodes.keys();
    if (this.#inodes.size > maxInodes && oldest !== undefined) this.#inodes.delete(oldest);
  }

  #openJournals(services: readonly ServiceLogsConfig[]): void {
    const { journalProgram } = this.#options;
    const wanted = new Map(services.filter(({ units }) => units.length > 0).map((service) => [keyOf(service), service]));
    for (const [key, { tail }] of this.#journals) {
      if (wanted.has(key)) continue;
      tail.close();
      this.#journals.delete(key);
    }
    for (const [key, { service, units }] of wanted) {
      if (this.#journals.has(key)) continue;
      const cursor = this.#positions?.journals[key];
      const tail = new JournalTail({ units, cursor, ...(journalProgram === undefined ? {} : { program: journalProgram }) });
      this.#journals.set(key, { service, tail });
    }
  }

  async #readFile(each: Tail, nowMs: number): Promise<void> {
    const { service, path, tail } = each;
    const before = tail.position;
    let texts: string[];
    try {
      texts = (await tail.read(roundBytes, nowMs)).map(({ text }) => text);
      this.#problems.delete(path);
    } catch (error) {
      // Files come and go, and some are not readable: report it in the status and retry.
      this.#problems.set(path, CoralError.from(error).message);
      return;
    }
    try {
      const observedUs = this.#nowUs();
      await this.#store(service, { "log.file.path": path }, texts, (text) => ({ ...parseLogLine(text), observedUs }));
    } catch (error) {
      await tail.close();
      this.#tails.set(path, { service, path, tail: new FileTail({ path, position: before, fromStart: true }) });
      throw error;
    }
    const { position } = tail;
    this.#keepOffset(position);
    if (position && this.#positions) this.#positions.files[path] = { ...position, service };
  }

  async #readJournal(key: string, service: string, tail: JournalTail, nowMs: number): Promise<void> {
    const observedUs = this.#nowUs();
    try {
      await this.#store(service, {}, joinRecords(tail.take(roundRecords, nowMs)), (record) => journalLine(record, observedUs));
    } catch (error) {
      tail.undo();
      throw error;
    }
    if (tail.cursor !== undefined && this.#positions) this.#positions.journals[key] = tail.cursor;
  }

  /** Stores all items or none. */
  async #store<T>(service: string, attributes: Record<string, string>, items: readonly T[], lineOf: (item: T) => LogLine): Promise<void> {
    if (items.length === 0) return;
    const segments = this.#options.segments();
    if (segments === undefined) throw new CoralError({ code: "unavailable", message: "Cannot store log lines: the store has no segments" });
    const source = { service, attributes, hostName: this.#options.hostName };
    const parts: Uint8Array[] = [];
    for (let from = 0; from < items.length; from += sliceLines) {
      parts.push(encodeLogLines(source, items.slice(from, from + sliceLines).map(lineOf)));
      await setImmediate();
    }
    // Concatenated requests are one request: protobuf appends repeated fields.
    const body = Buffer.concat(parts);
    await segments.append(logRecord.name, { kind: 0, rows: items.length, receivedUs: this.#nowUs(), body });
  }

  #nowUs(): number {
    return Math.round(this.#options.clock.wallMs() * 1_000);
  }

  async #load(): Promise<Positions> {
    try {
      const { files = {}, journals = {} } = JSON.parse(await readFile(this.#options.file, "utf8")) as Partial<Positions>;
      return { files, journals };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT")
        this.#options.log.warn("Log offsets lost; resuming at the end of each file", { error });
      return { files: {}, journals: {} };
    }
  }

  async #save(): Promise<void> {
    const paths = new Set(this.#tails.keys());
    const files = Object.entries(this.#positions?.files ?? {}).filter(([path]) => paths.has(path));
    const journals = Object.entries(this.#positions?.journals ?? {}).filter(([key]) => this.#journals.has(key));
    const text = JSON.stringify({ files: Object.fromEntries(files), journals: Object.fromEntries(journals) });
    if (text === this.#saved) return;
    const { file, owner } = this.#options;
    await writePrivateFile(file, text, { owner });
    this.#saved = text;
  }
}

function keyOf({ service, units }: ServiceLogsConfig): string {
  return JSON.stringify([service, ...units]);
}

function folderOf(service: string, path: string): string {
  return `${service}\n${dirname(path)}`;
}

/** The journal has one record per printed line: joins the lines of a stack trace. */
function joinRecords(records: readonly JournalRecord[]): JournalRecord[] {
  const joined: JournalRecord[] = [];
  for (const record of records) {
    const last = joined.at(-1);
    if (
      last?.pid === record.pid &&
      continuesRecord(last.message, record.message) &&
      last.message.length + record.message.length < maxRecordCharacters
    )
      joined[joined.length - 1] = { ...last, message: `${last.message}\n${record.message}` };
    else joined.push(record);
  }
  return joined;
}

function journalLine(record: JournalRecord, observedUs: number): LogLine {
  const parsed = parseLogLine(record.message);
  const severityNumber = parsed.severityNumber || (record.priority === null ? 0 : severityOfPriority(record.priority));
  return { ...parsed, severityNumber, timeUs: record.timeUs || parsed.timeUs, observedUs };
}

/** Lines and bytes of a file that were not stored as they are; empty when there are none. */
function skippedText({ cutLines, binaryLines, skippedBytes, packedFiles }: FileTail["counts"]): string {
  return [
    ...(cutLines > 0 ? [`${linesOf(cutLines)} truncated at 64 KiB`] : []),
    ...(binaryLines > 0 ? [`${linesOf(binaryLines)} skipped as binary`] : []),
    ...(packedFiles > 0
      ? [`${packedFiles} rotated ${packedFiles === 1 ? "file was" : "files were"} compressed before they were read; delay compression`]
      : []),
    ...(skippedBytes > 0 ? [`${formatBytes(skippedBytes)} skipped because they were written faster than they can be read`] : []),
  ].join("; ");
}

function linesOf(count: number): string {
  return count === 1 ? "1 line" : `${count} lines`;
}
