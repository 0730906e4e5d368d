/** A window of the profile process as rows. */

import { createHash } from "node:crypto";
import type { ProfileStack, ProfileWindow } from "../../profile/index.ts";
import type { profile, RowOf, SampleTime } from "../../store/signals/index.ts";
import type { TimeSpan } from "../traffic/traffic-directory.ts";
import type { StackRow } from "./known-stacks.ts";

export type ProfileRow = RowOf<typeof profile.columns>;

/** The service of kernel threads. */
export const kernelService = "kernel";
/** `/proc` counts starts in ticks of 1/100 s on every processor that Coral runs on. */
const nsPerTick = 10_000_000;
/** 64 bits of a hash: collisions are negligible for millions of stacks. */
const idDigits = 16;
/** Characters. A C++ template name can be longer than the rest of the row. */
const maxNameLength = 240;

/** `serviceOf`: the service of a process during the window; undefined for a process that no scan has seen. */
export function profileRows(
  window: ProfileWindow,
  time: SampleTime,
  serviceOf: (pid: number, span: TimeSpan) => string | undefined,
): { rows: ProfileRow[]; stacks: StackRow[] } {
  const toNs = BigInt(time.mono_ms) * 1_000_000n;
  const span: TimeSpan = { fromNs: toNs - BigInt(Math.round(window.windowMs * 1e6)), toNs };
  const services = new Map<number, string | undefined>();
  const rows = new Map<string, ProfileRow>();
  const stacks = new Map<string, StackRow>();
  for (const one of window.stacks) {
    if (!services.has(one.pid)) services.set(one.pid, serviceOf(one.pid, span));
    const stack = stackRow(one, window, time);
    stacks.set(stack.stack, stack);
    const row = rowOf(one, stack.stack, services.get(one.pid), window, time);
    const key = `${row.pid} ${row.start_ticks} ${row.stack} ${row.thread}`;
    const known = rows.get(key);
    rows.set(key, known === undefined ? row : { ...known, samples: known.samples + row.samples, cpu_us: known.cpu_us + row.cpu_us });
  }
  return { rows: [...rows.values()], stacks: [...stacks.values()] };
}

/** `cpu_us` is an estimate: samples times the sampling period. */
function rowOf(one: ProfileStack, stack: string, service: string | undefined, window: ProfileWindow, time: SampleTime): ProfileRow {
  return {
    ...time,
    // A process that exited before a scan saw it is recorded under the kernel's process name.
    service: one.isKernelThread ? kernelService : (service ?? one.processName),
    pid: one.pid,
    start_ticks: Math.floor(one.startedNs / nsPerTick),
    thread: one.threadName,
    build: one.build,
    stack,
    samples: one.samples,
    cpu_us: one.samples * window.periodUs,
    window_ms: Math.round(window.windowMs),
  };
}

/** The id is made from the frames, so that it is the same at every agent and after every start. */
function stackRow({ frames, isWhole }: ProfileStack, window: ProfileWindow, time: SampleTime): StackRow {
  const described = frames.flatMap((number) => {
    const frame = window.frames[number];
    return frame === undefined ? [] : [[frame.name.slice(0, maxNameLength), frame.module, frame.kind]];
  });
  const text = JSON.stringify(described);
  const stack = createHash("sha256")
    .update(text)
    .update(isWhole ? "1" : "0")
    .digest("hex")
    .slice(0, idDigits);
  return { ...time, stack, frames: text, is_whole: isWhole };
}
