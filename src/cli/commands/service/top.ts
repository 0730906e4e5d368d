import { sleep } from "../../../base/clock.ts";
import { CoralError } from "../../../base/errors.ts";
import { escapeText } from "../../../base/escape-text.ts";
import { formatDurationMs } from "../../../base/units.ts";
import type { Answer, TopResult, TopRow } from "../../../tools/index.ts";
import { LiveScreen } from "../../output/live-screen.ts";
import type { Printer } from "../../output/printer.ts";
import { type Column, renderTable, tableOf, valueColumn } from "../../output/table.ts";
import { truncateText } from "../../output/text-width.ts";
import { bytes, percent, plural, rate } from "../../output/values.ts";
import { type ColonyConnection, connectColony } from "../../run/connection.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showAnswer } from "../../run/show-answer.ts";
import { toolInput } from "../../run/show-tool.ts";
import { errorCell, latencyColumn, rateColumn, rateLine } from "../query/red-text.ts";

type Sort = "rate" | "errors" | "p95" | "cpu";

/** Keys that change the order while `coral top` runs. */
const sortKeys: Readonly<Record<string, Sort>> = { r: "rate", e: "errors", p: "p95", c: "cpu" };
/** Agents report requests every ten seconds, CPU every fifteen; two seconds keep the screen responsive to a newly pulled window. */
const intervalMs = 2_000;
/** Rows when the output is not a terminal; on a terminal its height decides. */
const defaultLimit = 30;

/** `coral top`: the busiest services, redrawn in place on a terminal, else printed once. */
export async function run(invocation: Invocation): Promise<void> {
  const { options, print, format } = invocation;
  const colony = await connectColony(invocation);
  const { sort = "rate", limit, ...input } = toolInput(invocation, "coral_query_top");
  const ask = (by: Sort, atMost: number): Promise<Answer<TopResult>> =>
    colony.call("coral_query_top", { ...input, sort: by, limit: atMost, points: 12 });
  // TERM=dumb has no cursor movement.
  const isLive = print.isTerminal && invocation.io.env["TERM"] !== "dumb" && format === "table" && !options.flag("once");
  if (isLive) return live(invocation, colony, sort, (by, rows) => ask(by, limit ?? rows));
  await showAnswer(invocation, () => ask(sort, limit ?? defaultLimit), {
    table: (answer) => tableOf(answer.rows, columnsFor(undefined)),
    page: (answer, wide) => `${pageLines(answer, print, wide ? undefined : print.width, wide, sort).join("\n")}\n`,
  });
}

/** What is drawn between two answers. */
interface LiveState {
  sort: Sort;
  answer: Answer<TopResult> | undefined;
  problem: string | undefined;
}

/** Runs until q, Ctrl-C or a signal. After the first answer, retries while the colony does not respond. */
async function live(
  invocation: Invocation,
  colony: ColonyConnection,
  sort: Sort,
  ask: (sort: Sort, rows: number) => Promise<Answer<TopResult>>,
): Promise<void> {
  const { io } = invocation;
  const state: LiveState = { sort, answer: undefined, problem: undefined };
  // Call once before switching to the alternate screen, so that an error prints as usual.
  state.answer = await ask(state.sort, io.stdout.rows ?? defaultLimit);
  const stop = new AbortController();
  let ended: NodeJS.Signals | undefined;
  let wake = new AbortController();
  const signal = AbortSignal.any([io.signal, stop.signal]);
  {
    using screen = new LiveScreen(io, {
      onKey: (text) => {
        // ESC starts a function key, such as an arrow: ignore it. A paste or fast typing delivers several keys at once.
        for (const key of text.startsWith("\u001b") ? [] : text) {
          if (key === "q" || key === "Q" || key === "\u0003") return stop.abort();
          const next = sortKeys[key.toLowerCase()];
          if (next === undefined) continue;
          state.sort = next;
          wake.abort();
        }
      },
      onResize: () => draw(screen, invocation, colony, state),
      onEnd: (name) => {
        ended = name;
        stop.abort();
      },
    });
    while (!signal.aborted) {
      draw(screen, invocation, colony, state);
      // Aborted by a key or by the end of the command.
      await sleep(intervalMs, AbortSignal.any([signal, wake.signal])).catch(() => undefined);
      if (signal.aborted) break;
      wake = new AbortController();
      await refresh(state, () => ask(state.sort, screen.rows), signal);
    }
  }
  // Re-raise the signal with its default action, so that the shell sees a program killed by it. The screen is restored by now.
  if (ended !== undefined && ended !== "SIGINT") process.kill(process.pid, ended);
}

/** Keeps the last answer on screen when the colony does not respond, with the problem above it. */
async function refresh(state: LiveState, ask: () => Promise<Answer<TopResult>>, signal: AbortSignal): Promise<void> {
  try {
    state.answer = await ask();
    state.problem = undefined;
  } catch (error) {
    const failure = CoralError.from(error);
    if (signal.aborted) return;
    // The colony may be restarting: show the problem and try again.
    if (failure.code !== "unavailable" && failure.code !== "timeout") throw failure;
    state.problem = failure.message;
  }
}

/** Draws the whole screen; lines that do not fit are dropped by LiveScreen. */
function draw(screen: LiveScreen, { print }: Invocation, colony: ColonyConnection, { answer, problem, sort }: LiveState): void {
  const { style } = print;
  const time = new Date().toTimeString().slice(0, 8);
  const lines = [`${style("bold", "coral top")} · ${escapeText(colony.name)} · ${time}`];
  if (problem !== undefined) lines.push(style("red", escapeText(print.commands(problem))));
  if (answer) {
    lines.push(...pageLines(answer, print, screen.columns, false, sort));
    for (const note of answer.completeness.notes.filter(({ kind }) => kind !== "limit"))
      lines.push(`${style("yellow", "note:")} ${truncateText(escapeText(print.commands(note.message)), screen.columns - 6)}`);
  }
  const keys = Object.entries(sortKeys).map(([key, name]) => {
    const text = `${key} ${name === "cpu" ? "CPU" : name}`;
    return name === sort ? style("bold", text) : text;
  });
  screen.draw(lines, `${style("dim", "q quit · sort:")} ${keys.join("  ")}`);
}

function pageLines(answer: TopResult, { style }: Printer, width: number | undefined, wide: boolean, sort: Sort): string[] {
  const { total, perSecond, errorRatio, sinceMs, windowMs, rows } = answer;
  const watched = windowMs < sinceMs * 0.9 ? `, observed for ${formatDurationMs(windowMs)}` : "";
  const head = `${plural(total, "service")} · ${rate(perSecond)} req/s · ${percent(errorRatio)} errors · last ${formatDurationMs(sinceMs)}${watched} · by ${sort}`;
  if (rows.length === 0) return [head];
  const table = renderTable(tableOf(rows, columnsFor(width)), { wide, width, style }).trimEnd();
  return [head, "", ...table.split("\n")];
}

/** `from` is the least terminal width, in cells, at which a column is shown. */
function columnsFor(width: number | undefined): readonly Column<TopRow>[] {
  const room = width ?? Number.POSITIVE_INFINITY;
  const columns: (Column<TopRow> & { from?: number })[] = [
    { title: "SERVICE", key: "service", cell: (row) => row.service },
    rateColumn((row) => row.perSecond),
    {
      title: "ERRORS",
      key: "errorRatio",
      align: "right",
      cell: (row) => (row.role === null ? null : errorCell(row.errorRatio)),
      raw: (row) => row.errorRatio,
    },
    { ...latencyColumn<TopRow>("P50", "p50Us", (row) => row.p50Us), from: 60 },
    latencyColumn("P95", "p95Us", (row) => row.p95Us),
    { ...latencyColumn<TopRow>("P99", "p99Us", (row) => row.p99Us), from: 70 },
    { ...latencyColumn<TopRow>("QUEUE", "queueMeanUs", (row) => row.queueMeanUs), from: 90 },
    valueColumn("CPU", "cpuCores", (row) => row.cpuCores, percent, { align: "right" }),
    { title: "MEMORY", key: "rssBytes", align: "right", cell: (row) => bytes(row.rssBytes), raw: (row) => row.rssBytes, from: 80 },
    { title: "PROTOCOLS", key: "protocols", cell: (row) => row.protocols.join(","), from: 100 },
    { title: "RATE", key: "points", align: "left", cell: (row) => rateLine(row.points), raw: (row) => row.points.join(" "), from: 80 },
    { title: "ROLE", key: "role", cell: (row) => row.role, wide: true },
  ];
  return columns.filter(({ from = 0 }) => room >= from);
}
