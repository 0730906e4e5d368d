import { escapeText } from "../../../base/escape-text.ts";
import { formatDurationMs } from "../../../base/units.ts";
import type { ProfileFunction, ProfileNode, ProfileResult } from "../../../tools/index.ts";
import type { Printer } from "../../output/printer.ts";
import { type Cell, type Column, renderTable, tableOf, valueColumn } from "../../output/table.ts";
import { padText, truncateText } from "../../output/text-width.ts";
import { grouped, percent } from "../../output/values.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showTool, toolInput } from "../../run/show-tool.ts";

/** `coral query profile <service>`: functions by share of CPU, or the call tree. */
export async function run(invocation: Invocation): Promise<void> {
  const { print, format } = invocation;
  const { since, tree } = toolInput(invocation, "coral_profile_functions");
  await showTool(
    invocation,
    "coral_profile_functions",
    {
      table: (answer) => tableOf(answer.functions, columnsOf(answer)),
      page: (answer, wide) => profilePage(answer, print, { wide, isTree: tree === true }),
      folded: foldedText,
      empty: `No CPU samples in the last ${since}; look further back with --since`,
      isEmpty: (answer) => answer.functions.length === 0,
    },
    { stacks: format === "folded" },
  );
}

/** A headline, then the functions or the call tree. */
function profilePage(answer: ProfileResult, print: Printer, { wide, isTree }: { wide: boolean; isTree: boolean }): string {
  if (answer.functions.length === 0) return "";
  const width = wide ? undefined : print.width;
  const body = isTree
    ? treeLines(answer, print, width)
    : renderTable(tableOf(answer.functions, columnsOf(answer)), { wide, width, style: print.style });
  return `${headline(answer, print)}\n${body}`;
}

/** `api  CPU over 10m · 0.42 cores · 4,788 samples of 2 processes · 1 day earlier 0.31 cores`. */
function headline(answer: ProfileResult, { style }: Printer): string {
  const { service, sinceMs, coveredMs, cores, samples, instances, baselineMs, coresBefore } = answer;
  const covered = coveredMs < sinceMs * 0.9 ? `, sampled for ${formatDurationMs(Math.round(coveredMs / 1_000) * 1_000)}` : "";
  const parts = [
    `CPU over ${formatDurationMs(sinceMs)}${covered}`,
    ...(cores === null ? [] : [`${coresText(cores)} cores`]),
    `${grouped(samples)} samples of ${instances} ${instances === 1 ? "process" : "processes"}`,
    ...(baselineMs === null || coresBefore === null ? [] : [`${formatDurationMs(baselineMs)} earlier ${coresText(coresBefore)} cores`]),
  ];
  return `${style("bold", escapeText(service))}  ${parts.join(" · ")}`;
}

/** Three decimals below a tenth of a core, where most idle services are. */
function coresText(cores: number): string {
  return cores < 0.1 ? cores.toFixed(3) : cores.toFixed(2);
}

/** BEFORE and CHANGE only with a baseline. */
function columnsOf({ baselineMs }: ProfileResult): readonly Column<ProfileFunction>[] {
  const changes: Column<ProfileFunction>[] = [
    {
      title: "BEFORE",
      key: "totalBefore",
      align: "right",
      cell: (row) => (row.before === null ? null : percent(row.before.total)),
      raw: (row) => row.before?.total,
    },
    { title: "CHANGE", key: "change", align: "right", cell: (row) => changeCell(row.change, row.significant), raw: (row) => row.change },
  ];
  return [
    valueColumn("SELF", "self", (row) => row.self, percent, { align: "right" }),
    valueColumn("TOTAL", "total", (row) => row.total, percent, { align: "right" }),
    ...(baselineMs === null ? [] : changes),
    { title: "FUNCTION", key: "name", align: "left", cell: (row) => row.name },
    { title: "FILE", key: "file", align: "left", cell: (row) => (row.kind === "kernel" ? "kernel" : row.file), raw: (row) => row.file },
    { title: "CPU MS", key: "cpuMs", cell: (row) => Math.round(row.cpuMs), raw: (row) => row.cpuMs, wide: true },
    { title: "KIND", key: "kind", cell: (row) => row.kind, wide: true },
  ];
}

/** `+12.3` percentage points; coloured when the change is significant. */
function changeCell(change: number | null, isSignificant: boolean): Cell {
  if (change === null) return null;
  const text = `${change > 0 ? "+" : ""}${(change * 100).toFixed(1)}`;
  return isSignificant ? { text, style: change > 0 ? "red" : "green" } : text;
}

/** One line per call path. Indents only where a caller has several callees, to keep deep stacks readable. */
function treeLines({ tree, baselineMs }: ProfileResult, { style }: Printer, width: number | undefined): string {
  const lines = [style("dim", `${padText("TOTAL", 6, "right")} ${padText("SELF", 6, "right")}  CALL PATH`)];
  const indents: number[] = [];
  for (const [index, node] of tree.entries()) {
    const above = tree[index - 1];
    const isOnly = node.depth > 0 && above !== undefined && above.depth === node.depth - 1 && !hasSibling(tree, index);
    indents[node.depth] = node.depth === 0 ? 0 : (indents[node.depth - 1] ?? 0) + (isOnly ? 0 : 1);
    const change = baselineMs === null || node.change === null ? "" : ` (${node.change > 0 ? "+" : ""}${(node.change * 100).toFixed(1)})`;
    const figures = `${padText(percent(node.total) ?? "", 6, "right")} ${padText(node.self === 0 ? "" : (percent(node.self) ?? ""), 6, "right")}  `;
    const text = `${"  ".repeat(indents[node.depth] ?? 0)}${nodeText(node)}${change}`;
    lines.push(`${figures}${width === undefined ? text : truncateText(text, Math.max(20, width - figures.length))}`);
  }
  return `${lines.join("\n")}\n`;
}

/** Whether another callee of the same caller follows. */
function hasSibling(tree: readonly ProfileNode[], index: number): boolean {
  const depth = tree[index]?.depth ?? 0;
  for (const next of tree.slice(index + 1)) {
    if (next.depth < depth) return false;
    if (next.depth === depth) return true;
  }
  return false;
}

/** `parse [libjson.so]`. A function without a symbol already contains its file: `nginx+0x70810`. */
function nodeText({ name, file, kind }: ProfileNode): string {
  const place = kind === "kernel" ? "kernel" : file;
  return escapeText(place === "" || name.startsWith(`${file}+0x`) ? name : `${name} [${place}]`);
}

/** Folded stacks separate frames with semicolons, so names must not contain any. */
function foldedText({ stacks }: ProfileResult): string {
  return stacks
    .map(({ frames, samples }) => `${frames.map((name) => escapeText(name.replaceAll(";", ":"))).join(";")} ${samples}\n`)
    .join("");
}
