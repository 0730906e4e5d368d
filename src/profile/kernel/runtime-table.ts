/**
 * The map `runtimes` of probes/profile/runtime-frames.h: which processes run V8 or CPython, and where the kernel program finds their
 * frames.
 */

import type { PythonLayout, V8Layout } from "../../code/index.ts";

export type RuntimeEntry = { kind: "v8"; layout: V8Layout } | { kind: "python"; layout: PythonLayout; address: number };

/** Processes whose runtime frames the kernel program reads. */
export interface RuntimeTable {
  /** Returns false if the table is full. */
  add(pid: number, startedNs: number, entry: RuntimeEntry): boolean;
  remove(pid: number): void;
}

/** `struct runtime`; a test compares the layout with the BTF of the object. */
export const runtimeLayout = {
  started_ns: 0,
  kind: 8,
  shared_info: 12,
  runtime_address: 16,
  interpreter_head: 24,
  thread_head: 28,
  thread_next: 32,
  thread_id: 36,
  thread_frame: 40,
  has_holder: 44,
  holder_frame: 48,
  frame_code: 52,
  frame_previous: 56,
  frame_owner: 60,
} as const;
const runtimeBytes = 64;
/** `enum runtime_kind` */
const kinds = { v8: 1, python: 2 } as const;

export function encodeRuntime(startedNs: number, entry: RuntimeEntry): Buffer {
  const bytes = Buffer.alloc(runtimeBytes);
  const put = (field: keyof typeof runtimeLayout, value: number): void => void bytes.writeUInt32LE(value, runtimeLayout[field]);
  bytes.writeBigUInt64LE(BigInt(startedNs), runtimeLayout.started_ns);
  put("kind", kinds[entry.kind]);
  if (entry.kind === "v8") {
    put("shared_info", entry.layout.function.shared);
    return bytes;
  }
  const { runtime, interpreter, thread, frame } = entry.layout;
  bytes.writeBigUInt64LE(BigInt(entry.address), runtimeLayout.runtime_address);
  put("interpreter_head", runtime.interpreters);
  put("thread_head", interpreter.threads);
  put("thread_next", thread.next);
  put("thread_id", thread.id);
  put("thread_frame", thread.frame);
  put("has_holder", thread.holder === null ? 0 : 1);
  put("holder_frame", thread.holder ?? 0);
  put("frame_code", frame.code);
  put("frame_previous", frame.previous);
  put("frame_owner", frame.owner);
  return bytes;
}
