/** Reads `struct cpu_sample` of probes/profile/profile.bpf.c. A test compares the layout with the BTF of the object. */

import { decodeProcessName } from "../../host/index.ts";

export const sampleLayout = {
  process: 0,
  thread: 4,
  started_ns: 8,
  registers: 16,
  stack_at: 80,
  kernel_frames: 88,
  user_frames: 92,
  stack_bytes: 96,
  is_kernel_thread: 100,
  runtime_kind: 104,
  thread_name: 112,
  process_name: 128,
  kernel: 144,
  user: 528,
  stack: 2576,
} as const;

export const maxKernelFrames = 48;
export const maxUserFrames = 128;
export const maxRuntimeFrames = 128;
const runtimeFrameBytes = 16;

/** Order of the registers in a record, by their DWARF number: rip, rsp, rbp, rbx, r12 to r15. */
const registerOrder = [16, 7, 6, 3, 12, 13, 14, 15] as const;
export const dwarfRegisters = 17;

/** A frame of a language runtime, `struct runtime_frame`. */
export interface RuntimeFrame {
  /** V8: of the instruction in the process. Python: the frame's owner. */
  address: number;
  /** What names the function, in the process's memory; 0 for a native frame. */
  pointer: number;
}

/** One sample. Its arrays are reused by the next one. */
export interface CpuSample {
  pid: number;
  startedNs: number;
  isKernelThread: boolean;
  threadName: string;
  processName: string;
  /** Innermost first, without the upper 16 bits, which are all ones. */
  kernel: number[];
  /** From frame pointers, innermost first; empty if `runtime` has frames. */
  user: number[];
  /** Frames of the language runtime in `RuntimeTable`, innermost first. */
  runtime: readonly RuntimeFrame[];
  /** By DWARF number; NaN: unknown. Null if the record has none. */
  registers: Float64Array | null;
  /** The copied stack; starts at `stackAt` in the process. */
  stack: DataView;
  stackAt: number;
}

/** Null for a record that is shorter than it declares. */
export function createSampleReader(): (view: DataView, offset: number, length: number, bytes: Buffer) => CpuSample | null {
  const registers = new Float64Array(dwarfRegisters);
  return (view, offset, length, bytes) => {
    if (length < sampleLayout.stack) return null;
    const uint32 = (at: number): number => view.getUint32(offset + at, true);
    const word = (at: number): number => uint32(at) + uint32(at + 4) * 2 ** 32;
    const stackBytes = uint32(sampleLayout.stack_bytes);
    const kernelFrames = Math.min(uint32(sampleLayout.kernel_frames), maxKernelFrames);
    const hasRuntime = uint32(sampleLayout.runtime_kind) !== 0;
    const userFrames = hasRuntime ? 0 : Math.min(uint32(sampleLayout.user_frames), maxUserFrames);
    const runtimeFrames = hasRuntime ? Math.min(uint32(sampleLayout.user_frames), maxRuntimeFrames) : 0;
    if (sampleLayout.stack + stackBytes > length) return null;
    registers.fill(Number.NaN);
    for (const [index, register] of registerOrder.entries()) registers[register] = word(sampleLayout.registers + index * 8);
    const low48 = (at: number): number => uint32(at) + (uint32(at + 4) & 0xffff) * 2 ** 32;
    return {
      pid: uint32(sampleLayout.process),
      startedNs: word(sampleLayout.started_ns),
      isKernelThread: uint32(sampleLayout.is_kernel_thread) !== 0,
      threadName: nameIn(bytes, offset + sampleLayout.thread_name),
      processName: nameIn(bytes, offset + sampleLayout.process_name),
      kernel: Array.from({ length: kernelFrames }, (_, index) => low48(sampleLayout.kernel + index * 8)),
      user: Array.from({ length: userFrames }, (_, index) => word(sampleLayout.user + index * 8)),
      runtime: Array.from({ length: runtimeFrames }, (_, index) => {
        const at = sampleLayout.user + index * runtimeFrameBytes;
        return { address: word(at), pointer: word(at + 8) };
      }),
      registers: registers[16] === 0 ? null : registers,
      stack: new DataView(view.buffer, view.byteOffset + offset + sampleLayout.stack, stackBytes),
      stackAt: word(sampleLayout.stack_at),
    };
  };
}

function nameIn(bytes: Buffer, at: number): string {
  return decodeProcessName(bytes, at) ?? "";
}
