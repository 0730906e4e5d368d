import { printable } from "../../base/escape-text.ts";

/** When several hierarchies place a process equally deep, the first of these names its group. */
const preference = ["memory", "", "name=systemd", "cpu", "cpuacct", "pids"];

/**
 * The most specific group in `/proc/<pid>/cgroup`. With v1 and hybrid a process has one per hierarchy, and some of them end at a slice.
 * `/` when it is in no group; null when the text holds none.
 */
export function processCgroup(text: string): string | null {
  let best: { path: string; depth: number; rank: number } | undefined;
  for (const line of text.split("\n", 64)) {
    const match = /^\d+:([^:]*):(\/.*)$/.exec(line);
    if (!match) continue;
    const path = match[2] ?? "/";
    const ranks = (match[1] ?? "").split(",").map((controller) => preference.indexOf(controller));
    const rank = Math.min(...ranks.map((value) => (value < 0 ? preference.length : value)));
    const depth = path === "/" ? 0 : path.split("/").length - 1;
    if (!best || depth > best.depth || (depth === best.depth && rank < best.rank)) best = { path, depth, rank };
  }
  return best ? printable(best.path.replace(/ \(deleted\)$/, ""), 512) : null;
}
