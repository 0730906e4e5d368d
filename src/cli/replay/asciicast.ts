/** Parses asciicast v2: a JSON header line, then one JSON event per line. Chunks may end anywhere. */

import { CoralError } from "../../base/errors.ts";

export interface CastHeader {
  width: number;
  height: number;
  /** Seconds since 1970; null when the header has none. */
  timestamp: number | null;
  title: string;
}

export interface CastEvent {
  /** Time since the start of the recording. */
  atMs: number;
  /** `o` is output, `i` input, `r` a new size, `m` a mark. */
  kind: string;
  data: string;
}

/** Maximum line length. Agents write one line per read of the terminal, which is far shorter. */
const maxLineLength = 4 * 1024 * 1024;

/** Yields the header, then the events. Throws `invalid` for anything else; ignores a truncated last line. */
export async function* readCast(parts: AsyncIterable<Uint8Array>): AsyncGenerator<CastHeader | CastEvent> {
  let number = 0;
  for await (const { line, isWhole } of linesOf(parts)) {
    if (line.trim() === "") continue;
    number++;
    const value = parse(line);
    if (number === 1) yield headerOf(value);
    else if (value === undefined && !isWhole) return;
    else yield eventOf(value, number);
  }
  if (number === 0) throw new CoralError({ code: "invalid", message: "Cannot replay the recording: it is empty" });
}

export function isHeader(item: CastHeader | CastEvent): item is CastHeader {
  return "width" in item;
}

/** `isWhole` is false for a last line without line feed, which the agent may not have finished writing. */
async function* linesOf(parts: AsyncIterable<Uint8Array>): AsyncGenerator<{ line: string; isWhole: boolean }> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const part of parts) {
    const lines = (rest + decoder.decode(part, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    if (rest.length > maxLineLength) throw new CoralError({ code: "invalid", message: "Cannot replay the recording: a line is too long" });
    for (const line of lines) yield { line, isWhole: true };
  }
  rest += decoder.decode();
  if (rest !== "") yield { line: rest, isWhole: false };
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    // The caller reports invalid JSON.
    return undefined;
  }
}

function headerOf(value: unknown): CastHeader {
  const { version, width, height, timestamp, title } = (typeof value === "object" && value !== null ? value : {}) as Record<
    string,
    unknown
  >;
  if (version !== 2 || !isSize(width) || !isSize(height))
    throw new CoralError({ code: "invalid", message: "Cannot replay the recording: it is not an asciicast v2 file" });
  return { width, height, timestamp: typeof timestamp === "number" ? timestamp : null, title: typeof title === "string" ? title : "" };
}

/** `[seconds, kind, data]`. Unknown kinds are kept and later skipped, so that newer recordings still play. */
function eventOf(value: unknown, number: number): CastEvent {
  const [at, kind, data] = Array.isArray(value) ? (value as unknown[]) : [];
  if (typeof at !== "number" || !Number.isFinite(at) || at < 0 || typeof kind !== "string" || typeof data !== "string")
    throw new CoralError({ code: "invalid", message: `Cannot replay the recording: line ${number} is not an event` });
  return { atMs: at * 1_000, kind, data };
}

/** Sizes come from a file; a wrong one must not allocate or print nonsense. */
function isSize(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value > 0 && value <= 10_000;
}
