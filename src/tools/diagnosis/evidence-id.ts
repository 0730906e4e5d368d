/** The same evidence always has the same id: FNV-1a over its parts, 8 hex digits. */
export function evidenceId(parts: readonly string[]): string {
  let hash = 0x811c9dc5;
  for (const character of parts.join("\u0000")) {
    hash ^= character.codePointAt(0) ?? 0;
    hash = Math.imul(hash, 0x01000193) >>> 0;
  }
  return `ev-${hash.toString(16).padStart(8, "0")}`;
}
