/** Prepares decoded log records for storage: redacts secrets, finds the pattern of each, counts patterns. */

import { redactLogText } from "../../redact/index.ts";
import { type DictionaryColumn, isPresent, type SegmentBatch, type TextColumn } from "../../store/segments/index.ts";
import type { LogTemplates } from "./log-templates.ts";

/** Records of one pattern in one batch. */
export interface PatternCount {
  service: string;
  pattern: string;
  template: string;
  severity: string;
  records: number;
  /** One of them, shortened. */
  example: string;
  /** Patterns that this one replaces. */
  replaces: readonly string[];
}

/** Different patterns, severities and services in one batch; more are counted with the last. */
const maxCounts = 2_000;
/** Enough to recognise the record; the whole one is in the store. */
const exampleCharacters = 300;

/** Adds the `pattern` column and replaces secrets in `body` and `attributes`. Patterns are found in the redacted text. */
export function annotateLogs(batch: SegmentBatch, templates: LogTemplates): { batch: SegmentBatch; patterns: PatternCount[] } {
  const { body, service, severity, attributes } = batch.columns;
  if (body?.kind !== "text" || service?.kind !== "dictionary" || severity?.kind !== "dictionary") return { batch, patterns: [] };
  const services = textsOf(service);
  const severities = textsOf(severity);
  const counts = new Map<string, PatternCount>();
  const codes = new Map<string, number>();
  const patternCodes = new Uint32Array(batch.rows);
  const present = new Uint8Array(Math.ceil(batch.rows / 8));
  const redactedBody = redactColumn(body, batch.rows, (text, row) => {
    const name = services(row);
    const template = templates.find(name, text);
    if (template === undefined) return;
    patternCodes[row] = codeIn(codes, template.id);
    present[row >> 3] = (present[row >> 3] ?? 0) | (1 << (row & 7));
    const level = severities(row);
    const key = `${template.id}\n${level}\n${name}`;
    const known = counts.get(key);
    if (known) known.records++;
    else if (counts.size < maxCounts) {
      const { id, text: shown, replaces } = template;
      const example = text.slice(0, exampleCharacters);
      counts.set(key, { service: name, pattern: id, template: shown, severity: level, records: 1, example, replaces });
    }
  });
  const pattern: DictionaryColumn = { kind: "dictionary", codes: patternCodes, present, ...packed([...codes.keys()]) };
  return {
    batch: {
      rows: batch.rows,
      columns: {
        ...batch.columns,
        body: redactedBody,
        pattern,
        ...(attributes?.kind === "text" && { attributes: redactColumn(attributes, batch.rows) }),
      },
    },
    patterns: [...counts.values()],
  };
}

function codeIn(codes: Map<string, number>, value: string): number {
  const known = codes.get(value);
  if (known !== undefined) return known;
  codes.set(value, codes.size);
  return codes.size - 1;
}

/** Texts of a dictionary by row, each decoded once. */
function textsOf(column: DictionaryColumn): (row: number) => string {
  const bytes = bufferOf(column.bytes);
  const texts: (string | undefined)[] = [];
  return (row) => {
    const code = column.codes[row] ?? 0;
    return (texts[code] ??= bytes.toString("utf8", column.offsets[code] ?? 0, column.offsets[code + 1] ?? 0));
  };
}

/** Copies only if something was redacted, which is rare. `visit` sees each text as stored. */
function redactColumn(column: TextColumn, rows: number, visit?: (text: string, row: number) => void): TextColumn {
  const bytes = bufferOf(column.bytes);
  const changed = new Map<number, Buffer>();
  for (let row = 0; row < rows; row++) {
    if (!isPresent(column, row)) continue;
    const text = bytes.toString("utf8", column.offsets[row] ?? 0, column.offsets[row + 1] ?? 0);
    const kept = redactLogText(text);
    if (kept !== text) changed.set(row, Buffer.from(kept));
    visit?.(kept, row);
  }
  if (changed.size === 0) return column;
  const parts: Uint8Array[] = [];
  const offsets = new Uint32Array(rows + 1);
  let size = 0;
  for (let row = 0; row < rows; row++) {
    const part = changed.get(row) ?? bytes.subarray(column.offsets[row] ?? 0, column.offsets[row + 1] ?? 0);
    parts.push(part);
    size += part.length;
    offsets[row + 1] = size;
  }
  return { ...column, bytes: Buffer.concat(parts, size), offsets };
}

function packed(values: readonly string[]): { bytes: Uint8Array; offsets: Uint32Array } {
  const parts = (values.length === 0 ? [""] : values).map((value) => Buffer.from(value));
  const offsets = new Uint32Array(parts.length + 1);
  for (const [index, part] of parts.entries()) offsets[index + 1] = (offsets[index] ?? 0) + part.length;
  return { bytes: Buffer.concat(parts), offsets };
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
