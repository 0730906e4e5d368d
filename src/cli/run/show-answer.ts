/** Prints an answer in the requested format, once or repeatedly with --watch. */

import { sleep } from "../../base/clock.ts";
import { CoralError } from "../../base/errors.ts";
import { escapeJsonText, escapeText } from "../../base/escape-text.ts";
import { parseDurationMs } from "../../base/units.ts";
import type { Completeness } from "../../tools/index.ts";
import { renderCsv } from "../output/csv.ts";
import { renderTable, type Table } from "../output/table.ts";
import type { Invocation } from "./invocation.ts";

export interface AnswerView<T> {
  /** For table, wide and csv. */
  table: (answer: T) => Table;
  /** What people see instead of the table, with -o table and -o wide. */
  page?: (answer: T, wide: boolean) => string;
  /** Whether the page already contains this note. */
  pageShows?: (answer: T, note: Completeness["notes"][number]) => boolean;
  /** For -o dot: a graph in the language of GraphViz. */
  dot?: (answer: T) => string;
  /** Called after a table, page or CSV was printed, to print hints on stderr. */
  after?: (answer: T) => void;
  /** Printed on stderr when there is nothing to show. */
  empty?: string;
  /** Exit code of the command when the call itself succeeds; default 0. */
  exitCode?: (answer: T) => number;
  /** Default: when the table has no rows. For answers whose table is long and not what people see. */
  isEmpty?: (answer: T) => boolean;
}

const defaultWatchMs = 2_000;
const leastWatchMs = 200;

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
    case "csv":
      return harmless(renderCsv(view.table(answer), options.header), print.isTerminal);
    case "table":
    case "wide": {
      const wide = format === "wide";
      if (view.page) return view.page(answer, wide);
      // Wide shows everything: the terminal may wrap, nothing is truncated.
      return renderTable(view.table(answer), { wide, width: wide ? undefined : print.width, style: print.style });
    }
  }
}

/** Files and programs get values unchanged; a terminal gets no control characters. */
function harmless(csv: string, isTerminal: boolean): string {
  return isTerminal ? csv.split("\n").map(escapeText).join("\n") : csv;
}

function printNotes<T extends object>(invocation: Invocation, answer: T, view: AnswerView<T>): void {
  const { format, print } = invocation;
  if (format === "json" || format === "yaml") return;
  if (view.empty !== undefined && (view.isEmpty?.(answer) ?? view.table(answer).cells.length === 0)) print.note(view.empty);
  view.after?.(answer);
  const isShown = format === "csv" ? undefined : view.pageShows;
  for (const note of notesOf(answer).filter((item) => isShown?.(answer, item) !== true)) print.warning(escapeText(note.message));
}

function notesOf(answer: object): Completeness["notes"] {
  const { completeness } = answer as { completeness?: Completeness };
  return completeness?.notes ?? [];
}

function watchIntervalMs(invocation: Invocation): number | undefined {
  if (invocation.options.flag("watch")) return defaultWatchMs;
  const text = invocation.options.text("watch");
  if (text === undefined) return undefined;
  const intervalMs = parseDurationMs(/^\d+$/.test(text) ? `${text}s` : text);
  return Math.max(leastWatchMs, intervalMs);
}

const clearScreen = "\u001b[H\u001b[2J\u001b[3J";

/** Runs until the user ends it. Waits for a daemon that stops answering, once it has answered. */
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
        const head = print.style("dim", `coral ${invocation.command} · every ${intervalMs / 1_000}s · ${time} · Ctrl-C ends`);
        print.answer(redraws ? `${clearScreen}${head}\n\n${text}` : text);
        if (redraws || round === 0) printNotes(invocation, answer, view);
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
