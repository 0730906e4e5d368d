/** Escapes values for display. They come from hosts that may be hostile: a process can name itself after a terminal escape sequence. */

// Control characters (C0, DEL, C1), lone surrogates, line separators, and marks that change the text direction.
const unsafe = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/gu;
const names: Record<string, string> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** Makes a value safe to print on one line: terminal control sequences become `\x1b`, `\u202e` and the like. */
export function escapeText(text: string): string {
  return text.replace(unsafe, escapeCharacter);
}

/** For JSON, whose strings only require C0 to be escaped: the rest becomes `\u` escapes, which parsers decode. */
export function escapeJsonText(json: string): string {
  return json.replace(unsafe, (character) => (character === "\n" ? character : `\\u${hex(character, 4)}`));
}

/** One argument of a command line, quoted for a POSIX shell if necessary. */
export function shellWord(word: string): string {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

function escapeCharacter(character: string): string {
  const code = character.charCodeAt(0);
  return names[character] ?? (code < 0x100 ? `\\x${hex(character, 2)}` : `\\u${hex(character, 4)}`);
}

function hex(character: string, digits: number): string {
  return character.charCodeAt(0).toString(16).padStart(digits, "0");
}

/** Control and format characters (including direction marks), line and paragraph separators, lone surrogates. */
const unprintable = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/** Makes a name from outside safe to store and print: no control characters, at most `maxLength` UTF-16 units. */
export function printable(text: string, maxLength: number): string {
  const clean = text.slice(0, maxLength * 4).replace(unprintable, "");
  // The cut may leave half of a surrogate pair.
  return clean.length <= maxLength ? clean : clean.slice(0, maxLength).replace(unprintable, "");
}
