/**
 * Prints an answer in the requested format, once or repeatedly with --watch. JSON and YAML contain the whole answer, including
 * completeness; the other formats print completeness notes on stderr, so that stdout stays parseable.
 */

import { sleep } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import { escapeJsonText, escapeText } from "../../base/escape-text.ts";
import { parseDurationMs } from "../../base/units.ts";
import type { Completeness } from "../../tools/index.ts";
import { renderCsv } from "../output/csv.ts";
import { renderTable, type Table } from "../output/table.ts";
import { renderWatchFrame } from "../output/watch-frame.ts";
import type { CommandSpec } from "./command-spec.ts";
import type { Invocation } from "./invocation.ts";

export interface AnswerView<T> {
  /** Table for -o table, wide and csv. */
  table: (answer: T) => Table;
  /** Page printed instead of the table, with -o table and -o wide. */
  page?: (answer: T, wide: boolean) => string;
  /** Whether the page already shows this note. */
  pageShows?: (answer: T, note: Completeness["notes"][number]) => boolean;
  /** GraphViz graph for -o dot. */
  dot?: (answer: T) => string;
  /** Folded stacks for -o folded, one line per stack: `main;handle;parse 12`. */
  folded?: (answer: T) => string;
  /** Prints hints on stderr, after a table, page or CSV. */
  after?: (answer: T) => void;
  /** Message on stderr for an empty answer. */
  empty?: string;
  /** Exit code of the command when the call itself succeeds; default 0. */
  exitCode?: (answer: T) => number;
  /** Whether the answer is empty; default: the table has no rows. Saves building a long table for a page. */
  isEmpty?: (answer: T) => boolean;
}

const defaultWatchMs = 2_000;
/** Shorter intervals would keep the colony busy without being readable. */
const leastWatchMs = 200;

/** Without --watch: one call, the answer on stdout, notes and hints on stderr. */
export async function showAnswer<T extends object>(invocation: Invocation, ask: () => Promise<T>, view: AnswerView<T>): Promise<void> {
  const intervalMs = watchIntervalMs(invocation);
  if (intervalMs === undefined) {
    const answer = await ask();
    if (view.exitCode) invocation.setExitCode(view.exitCode(answer));
    invocation.print.answer(await render(invocation, answer, view, { compact: false, header: true }));
    printNotes(invocation, answer, view);
    return;
  }
  await watch(invocation, ask, view, intervalMs);
}

/** JSON as every command prints it: indented by two spaces, control characters escaped. */
export function renderJson(value: unknown, compact = false): string {
  return `${escapeJsonText(JSON.stringify(value, undefined, compact ? undefined : 2))}\n`;
}

/** `compact` is for --watch: one JSON document per line, YAML documents separated by `---`, the CSV header only once. */
async function render<T extends object>(
  invocation: Invocation,
  answer: T,
  view: AnswerView<T>,
  options: { compact: boolean; header: boolean },
): Promise<string> {
  const { format, print } = invocation;
  switch (format) {
    case "json":
      return renderJson(answer, options.compact);
    case "yaml": {
      const { stringify } = await import("../output/yaml.ts");
      const text = `${options.compact ? "---\n" : ""}${stringify(answer, { lineWidth: 0 })}`;
      return text.split("\n").map(escapeText).join("\n");
    }
    case "dot":
      return view.dot?.(answer) ?? "";
    case "folded":
      return view.folded?.(answer) ?? "";
    case "csv":
      return harmless(renderCsv(view.table(answer), options.header), print.isTerminal);
    case "table":
    case "wide": {
      const wide = format === "wide";
      if (view.page) return view.page(answer, wide);
      // -o wide never truncates; the terminal may wrap.
      return renderTable(view.table(answer), { wide, width: wide ? undefined : print.width, style: print.style });
    }
  }
}

/** CSV is raw for files and pipes; escaped for a terminal. */
function harmless(csv: string, isTerminal: boolean): string {
  return isTerminal ? csv.split("\n").map(escapeText).join("\n") : csv;
}

/** After the answer, so that the last lines before the prompt are what qualifies it. */
function printNotes<T extends object>(invocation: Invocation, answer: T, view: AnswerView<T>): void {
  const { format, print } = invocation;
  if (format === "json" || format === "yaml") return;
  if (view.empty !== undefined && (view.isEmpty?.(answer) ?? view.table(answer).cells.length === 0)) print.note(view.empty);
  view.after?.(answer);
  for (const note of shownNotes(invocation, answer, view)) print.warning(note);
}

/** Prints the notes that the page does not show. */
function shownNotes<T extends object>({ format, spec }: Invocation, answer: T, view: AnswerView<T>): string[] {
  const isShown = format === "csv" ? undefined : view.pageShows;
  return notesOf(answer)
    .filter((item) => isShown?.(answer, item) !== true)
    .map(({ message }) => escapeText(withFlags(message, spec)));
}

/** Rewrites input field names in a note's advice, the part after the last semicolon, to flags. */
export function withFlags(message: string, { tool = [] }: Pick<CommandSpec, "tool">): string {
  const [, state, advice, command = ""] = /^(.*; )(.*?)(\bcoral .*)?$/s.exec(message) ?? [];
  if (state === undefined || advice === undefined) return message;
  const options = new Map(tool.flatMap(({ field, from }) => (typeof from === "number" ? [] : [[field, from.option] as const])));
  const flagged = advice.replaceAll(/(?<![\w-])[A-Za-z]+(?![\w'-])/g, (word) => {
    const option = options.get(word);
    return option === undefined ? word : `--${option}`;
  });
  return `${state}${flagged}${command}`;
}

function notesOf(answer: object): Completeness["notes"] {
  const { completeness } = answer as { completeness?: Completeness };
  return completeness?.notes ?? [];
}

/** `--watch`, `--watch 5` (seconds) or `--watch 500ms`; undefined without it. */
function watchIntervalMs(invocation: Invocation): number | undefined {
  if (invocation.options.flag("watch")) return defaultWatchMs;
  const text = invocation.options.text("watch");
  if (text === undefined) return undefined;
  const intervalMs = parseDurationMs(/^\d+$/.test(text) ? `${text}s` : text);
  return Math.max(leastWatchMs, intervalMs);
}

/** Cursor home, erase the screen (ED 2), erase the scrollback (ED 3). Without ED 3 each redraw would remain in the scrollback. */
const clearScreen = "\u001b[H\u001b[2J\u001b[3J";

/** Repeats until the user stops it. After the first answer, retries while the daemon does not respond. */
async function watch<T extends object>(
  invocation: Invocation,
  ask: () => Promise<T>,
  view: AnswerView<T>,
  intervalMs: number,
): Promise<void> {
  const { print, io } = invocation;
  const stop = new AbortController();
  const onInterrupt = (): void => stop.abort();
  process.once("SIGINT", onInterrupt);
  const signal = AbortSignal.any([io.signal, stop.signal]);
  const redraws = print.isTerminal && (invocation.format === "table" || invocation.format === "wide");
  try {
    for (let round = 0; !signal.aborted; round++) {
      try {
        const answer = await ask();
        const text = await render(invocation, answer, view, { compact: true, header: round === 0 });
        const time = new Date().toTimeString().slice(0, 8);
        const head = print.style("dim", `coral ${invocation.command} · every ${intervalMs / 1_000}s · ${time} · Ctrl-C stops`);
        if (redraws) {
          const isEmpty = view.empty !== undefined && text === "";
          const page = isEmpty ? (view.empty ?? "") : text;
          const notes = shownNotes(invocation, answer, view).map((note) => print.commands(note));
          const frame = { head, page, notes, rows: io.stdout.rows || 24, columns: print.width ?? 80, style: print.style };
          print.answer(`${clearScreen}${renderWatchFrame(frame)}`);
        } else {
          print.answer(text);
          if (round === 0) printNotes(invocation, answer, view);
        }
      } catch (error) {
        const failure = CoralError.from(error);
        const isPassing = failure.code === "unavailable" || failure.code === "timeout";
        if (round === 0 || signal.aborted || !isPassing) throw failure;
        // The daemon may be restarting: warn and try again.
        print.warning(escapeText(failure.message));
      }
      await sleep(intervalMs, signal);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    process.removeListener("SIGINT", onInterrupt);
  }
}
