/** One screenful of a page that is redrawn: what does not fit is cut at the bottom, so the first lines never scroll away. */

import type { Style } from "./style.ts";
import { textWidth, truncateText } from "./text-width.ts";

export interface WatchFrame {
  /** First line, with the time. */
  head: string;
  /** The page; its first lines matter most. */
  page: string;
  /** What is missing or off, plain text. */
  notes: readonly string[];
  rows: number;
  columns: number;
  style: Style;
}

/** Notes shown at once; a page about few things may have many. */
const maxNotes = 3;
const colours = new RegExp(`${String.fromCodePoint(27)}\\[[0-9;]*m`, "gu");

export function renderWatchFrame({ head, page, notes, rows, columns, style }: WatchFrame): string {
  const lines = page.trimEnd().split("\n");
  const more = notes.length > maxNotes ? [`… ${notes.length - maxNotes + 1} more notes`] : [];
  const shownNotes = (more.length > 0 ? notes.slice(0, maxNotes - 1) : notes).map(
    (note) => `${style("yellow", "note:")} ${truncateText(note, columns - 6)}`,
  );
  const below = [...shownNotes, ...more.map((text) => style("dim", text))];
  // The cursor stays on the last row: a line break there would scroll.
  const room = Math.max(1, rows - 3 - below.length);
  const fitting = fit(lines, room, columns);
  const cut = lines.length - fitting.length;
  const body =
    cut === 0 ? fitting : [...fit(lines, room - 1, columns), style("dim", `… ${cut + 1} more lines; leave out --watch to see all`)];
  return [head, "", ...body, ...below].join("\n") + "\n";
}

/** The first lines, as many as fit into `room` rows; a line wider than the terminal takes several. */
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
