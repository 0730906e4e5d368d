/** One screenful of a redrawn page. Truncates at the bottom, so that the first lines never scroll away. */

import type { Style } from "./style.ts";
import { textWidth, truncateText } from "./text-width.ts";

export interface WatchFrame {
  /** First line, with the time. */
  head: string;
  /** The page, most important lines first. */
  page: string;
  /** Warnings and completeness notes, plain text. */
  notes: readonly string[];
  rows: number;
  columns: number;
  style: Style;
}

/** Maximum number of notes. */
const maxNotes = 3;
/** SGR sequences, which take no cells. */
const colours = new RegExp(`${String.fromCodePoint(27)}\\[[0-9;]*m`, "gu");

/** At most `rows` rows including head and notes. Notes are few and stay visible; the page gives way. */
export function renderWatchFrame({ head, page, notes, rows, columns, style }: WatchFrame): string {
  const lines = page.trimEnd().split("\n");
  const more = notes.length > maxNotes ? [`… ${notes.length - maxNotes + 1} more notes`] : [];
  const shownNotes = (more.length > 0 ? notes.slice(0, maxNotes - 1) : notes).map(
    (note) => `${style("yellow", "note:")} ${truncateText(note, columns - 6)}`,
  );
  const below = [...shownNotes, ...more.map((text) => style("dim", text))];
  // No line break after the last row: it would scroll the terminal.
  const room = Math.max(1, rows - 3 - below.length);
  const fitting = fit(lines, room, columns);
  const cut = lines.length - fitting.length;
  const body = cut === 0 ? fitting : [...fit(lines, room - 1, columns), style("dim", `… ${cut + 1} more lines; omit --watch to see all`)];
  return [head, "", ...body, ...below].join("\n") + "\n";
}

/** The first lines that fit into `room` rows; a line wider than the terminal takes several rows. */
function fit(lines: readonly string[], room: number, columns: number): string[] {
  let left = room;
  const fitting: string[] = [];
  for (const line of lines) {
    left -= Math.max(1, Math.ceil(textWidth(line.replaceAll(colours, "")) / columns));
    if (left < 0) break;
    fitting.push(line);
  }
  return fitting;
}
