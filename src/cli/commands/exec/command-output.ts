/** Prints the output of a command: unchanged, with the agent before each line, or as JSON. */

import { isUtf8 } from "node:buffer";
import { escapeJsonText, escapeText } from "../../../base/escape-text.ts";
import type { CommandRouted, RoutedTarget } from "../../../proto/coral/agent/v1/commands_pb.ts";
import type { CommandEvent } from "../../../transport/index.ts";
import type { CliIo, OutputStream } from "../../output/cli-io.ts";
import type { Style } from "../../output/style.ts";
import { agentNames } from "../../run/agent-names.ts";

type Target = Pick<RoutedTarget, "agentId" | "hostname">;

/** Consumes output of all targets. `target` is the index in the list of routed targets. */
export interface CommandOutput {
  write(target: number, stream: "stdout" | "stderr", data: Buffer): Promise<void>;
  /** Prints a last line without a line feed. */
  end(target: number): Promise<void>;
}

/** Longer lines are printed in pieces, because a program may never print a line feed. */
const maxLineBytes = 64 * 1024;

/** Applies backpressure when stdout is slow. */
export async function writeOut(stream: OutputStream, data: Uint8Array | string): Promise<void> {
  stream.write(data);
  if (!stream.writableNeedDrain) return;
  await new Promise<void>((resolve) => {
    const go = (): void => {
      stream.off?.("drain", go);
      stream.off?.("close", go);
      resolve();
    };
    stream.once?.("drain", go);
    stream.once?.("close", go);
  });
}

/** Output of one agent: bytes unchanged. */
export function plainOutput(io: CliIo): CommandOutput {
  return {
    write: (_target, stream, data) => writeOut(io[stream], data),
    end: () => Promise.resolve(),
  };
}

/** Output of several agents: `web-1 | line`. Escapes control characters; never mixes lines of different agents. */
export function prefixedOutput(io: CliIo, targets: readonly Target[], styles: { stdout: Style; stderr: Style }): CommandOutput {
  const names = targetNames(targets);
  const width = Math.max(0, ...names.map((name) => name.length));
  const waiting = new Map<string, Buffer>();
  const show = async (target: number, stream: "stdout" | "stderr", lines: Buffer[]): Promise<void> => {
    const prefix = styles[stream]("dim", `${escapeText((names[target] ?? String(target)).padEnd(width))} | `);
    const isTerminal = io[stream].isTTY === true;
    // Not a terminal: keep the bytes. latin1 maps every byte to one character and back, so the prefix can be added as text.
    const text = lines.map((line) => `${prefix}${isTerminal ? escapeText(line.toString("utf8")) : line.toString("latin1")}\n`).join("");
    await writeOut(io[stream], isTerminal ? text : Buffer.from(text, "latin1"));
  };
  return {
    write: async (target, stream, data) => {
      const key = `${target} ${stream}`;
      const before = waiting.get(key);
      const { lines, rest } = splitLines(before ? Buffer.concat([before, data]) : data);
      waiting.set(key, rest);
      if (lines.length > 0) await show(target, stream, lines);
    },
    end: async (target) => {
      for (const stream of ["stdout", "stderr"] as const) {
        const rest = waiting.get(`${target} ${stream}`);
        waiting.delete(`${target} ${stream}`);
        if (rest && rest.length > 0) await show(target, stream, [rest]);
      }
    },
  };
}

/** Splits at LF. A carriage return stays: progress bars use it to overwrite their line. */
function splitLines(data: Buffer): { lines: Buffer[]; rest: Buffer } {
  const lines: Buffer[] = [];
  let from = 0;
  for (let at = data.indexOf(10); at >= 0; at = data.indexOf(10, from)) {
    lines.push(data.subarray(from, at));
    from = at + 1;
  }
  while (data.length - from > maxLineBytes) {
    lines.push(data.subarray(from, from + maxLineBytes));
    from += maxLineBytes;
  }
  // Copy, because the underlying buffer is reused.
  return { lines, rest: Buffer.from(data.subarray(from)) };
}

/** One object per line: `{ "kind": "output", "agentId", "hostname", "stream", "text" }`, or `base64` for bytes that are not UTF-8. */
export function jsonOutput(io: CliIo, targets: readonly Target[]): CommandOutput {
  const waiting = new Map<string, Buffer>();
  const show = (target: number, stream: "stdout" | "stderr", data: Buffer): Promise<void> => {
    const { agentId = "", hostname = "" } = targets[target] ?? {};
    return writeOut(io.stdout, jsonLine({ kind: "output", agentId, hostname, stream, ...contentOf(data) }));
  };
  return {
    write: async (target, stream, data) => {
      const key = `${target} ${stream}`;
      const before = waiting.get(key);
      const all = before ? Buffer.concat([before, data]) : data;
      const whole = all.length - cutCharacterBytes(all);
      waiting.set(key, Buffer.from(all.subarray(whole)));
      if (whole > 0) await show(target, stream, all.subarray(0, whole));
    },
    end: async (target) => {
      for (const stream of ["stdout", "stderr"] as const) {
        const rest = waiting.get(`${target} ${stream}`);
        waiting.delete(`${target} ${stream}`);
        if (rest && rest.length > 0) await show(target, stream, rest);
      }
    },
  };
}

/** Length of an incomplete UTF-8 character at the end. */
function cutCharacterBytes(data: Buffer): number {
  for (let back = 1; back <= Math.min(3, data.length); back++) {
    const byte = data[data.length - back] ?? 0;
    // 10xxxxxx is a continuation byte.
    if ((byte & 0xc0) === 0x80) continue;
    const length = byte > 0xf4 ? 1 : byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc2 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

/** Names of events in JSON, which scripts depend on. */
const eventKinds = { started: "started", approvalNeeded: "approval-needed", ended: "ended" } as const;

/** Converts an event to its JSON form, with the field names of commands.proto. */
export function eventJson(event: CommandEvent): Record<string, unknown> {
  const fields = Object.entries(event.value).filter(([name]) => !name.startsWith("$"));
  return {
    kind: eventKinds[event.case],
    ...Object.fromEntries(fields.map(([name, value]) => [name, typeof value === "bigint" ? Number(value) : value])),
  };
}

/** The first JSON line: which agents get the command, and which were skipped and why. */
export function routedJson({ commandId, targets, skipped, warnings }: CommandRouted): Record<string, unknown> {
  return {
    kind: "routed",
    commandId,
    targets: targets.map(({ agentId, hostname }) => ({ agentId, hostname })),
    skipped: skipped.map(({ agentId, hostname, reason, fix }) => ({ agentId, hostname, reason, ...(fix === "" ? {} : { fix }) })),
    warnings,
  };
}

/** One line of JSON without control characters. */
export function jsonLine(value: unknown): string {
  return `${escapeJsonText(JSON.stringify(value))}\n`;
}

function contentOf(data: Buffer): { text: string } | { base64: string } {
  return isUtf8(data) ? { text: data.toString("utf8") } : { base64: data.toString("base64") };
}

/** Host names, or ids where a name occurs twice. */
export function targetNames(targets: readonly Target[]): string[] {
  const nameOf = agentNames(targets);
  return targets.map(({ agentId }) => nameOf(agentId));
}
