/** Width of a text in terminal cells: East Asian wide characters take two, combining marks none. Text must already be escaped. */

/** Printable ASCII, where width equals length: the fast path for nearly all cells. */
const plain = /^[\x20-\x7e]*$/;
/** East Asian Width W and F (UAX #11), regional indicators, and emoji that default to emoji presentation. */
const wide =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\u33ff\u3400-\u4dbf\u4e00-\ua4cf\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{1f1e6}-\u{1f1ff}\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}/u;
/** Combining marks, zero-width space, non-joiner and joiner. */
const invisible = /^[\p{M}\u200b-\u200d]+$/u;
/** Created on first use: constructing one takes about a millisecond. */
let segmenter: Intl.Segmenter | undefined;

/** Cells of a text. Terminals disagree about some emoji; this follows the majority. */
export function textWidth(text: string): number {
  if (plain.test(text)) return text.length;
  let width = 0;
  for (const character of charactersOf(text)) width += characterWidth(character);
  return width;
}

/** Truncates to at most `width` cells, ending in `…`. Never splits a grapheme. */
export function truncateText(text: string, width: number): string {
  if (textWidth(text) <= width) return text;
  if (width <= 0) return "";
  let kept = "";
  let used = 0;
  for (const character of plain.test(text) ? text : charactersOf(text)) {
    const next = used + characterWidth(character);
    if (next > width - 1) break;
    kept += character;
    used = next;
  }
  return `${kept}…`;
}

/** Wraps to lines of at most `width` cells, between words if possible. At least one line. */
export function wrapText(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    const longer = line === "" ? word : `${line} ${word}`;
    if (textWidth(longer) <= width) {
      line = longer;
      continue;
    }
    if (line !== "") lines.push(line);
    line = "";
    for (const character of charactersOf(word)) {
      if (textWidth(line + character) > width) {
        lines.push(line);
        line = "";
      }
      line += character;
    }
  }
  return [...lines, line];
}

/** String.padEnd counts UTF-16 units; this counts cells. */
export function padText(text: string, width: number, align: "left" | "right"): string {
  const padding = " ".repeat(Math.max(0, width - textWidth(text)));
  return align === "right" ? padding + text : text + padding;
}

/** U+FE0F, the variation selector, requests the two-cell emoji form of a character that is otherwise one cell wide. */
function characterWidth(character: string): number {
  if (wide.test(character) || character.includes("\ufe0f")) return 2;
  return invisible.test(character) ? 0 : 1;
}

/** Grapheme clusters: what a user perceives as one character may be several code points, such as a family emoji. */
function* charactersOf(text: string): Iterable<string> {
  segmenter ??= new Intl.Segmenter("en", { granularity: "grapheme" });
  for (const { segment } of segmenter.segment(text)) yield segment;
}
