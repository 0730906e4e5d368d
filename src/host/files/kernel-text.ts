/** Helpers shared by the parsers of kernel text. */

/** A counter as the kernel prints it. Anything but a non-negative number is 0, so that a damaged field does not put NaN into a row. */
export function toCount(text: string | undefined): number {
  if (text === undefined) return 0;
  const value = Number(text);
  return Number.isFinite(value) && value > 0 ? value : 0;
}

/** For columns that hold safe integers; file systems and limits report more. */
export function toSafeInteger(value: number): number {
  return Math.min(Number.MAX_SAFE_INTEGER, Math.max(0, Math.round(value)));
}

/** Fields of a line, separated by any run of blanks. */
export function fieldsOf(line: string): string[] {
  const trimmed = line.trim();
  return trimmed === "" ? [] : trimmed.split(/\s+/);
}

/** `key value` lines, as in vmstat, cpu.stat and memory.stat. Only the wanted keys are kept, so that memory.stat stays cheap. */
export function parseKeyValues<K extends string>(text: string, wanted: readonly K[]): Map<K, number> {
  const values = new Map<K, number>();
  const lines = `\n${text}`;
  for (const key of wanted) {
    // Keys are whole words at the start of a line: "inactive_file" must not match "total_inactive_file".
    const found = lines.indexOf(`\n${key} `);
    if (found < 0) continue;
    const start = found + key.length + 2;
    const end = lines.indexOf("\n", start);
    const value = Number(end < 0 ? lines.slice(start) : lines.slice(start, end));
    if (Number.isFinite(value) && value >= 0) values.set(key, value);
  }
  return values;
}

/** For word lists in the source. */
export function wordSet(words: string): ReadonlySet<string> {
  return new Set(words.split(/\s+/).filter(Boolean));
}
