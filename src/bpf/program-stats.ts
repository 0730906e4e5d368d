/** Cost of loaded programs: the kernel's count of their runs and run time. The kernel counts only while a process holds a descriptor for it. */

import { CoralError } from "../base/errors.ts";
import type { Libbpf } from "./libbpf.ts";

export interface ProgramStats {
  name: string;
  /** Of the counted runs since the program was loaded. */
  runNs: bigint;
  runs: bigint;
}

const BPF_OBJ_GET_INFO_BY_FD = 15;
const BPF_ENABLE_STATS = 32;
const BPF_STATS_RUN_TIME = 0;
/** The part of struct bpf_prog_info that is read. Zeros in its first fields keep the kernel from copying instructions. */
const infoBytes = 216;
const runNsAt = 192;
const runsAt = 200;

/** Reads the counters of one program. */
export function readProgramStats(libbpf: Libbpf, name: string, programFd: number): ProgramStats {
  const info = Buffer.alloc(infoBytes);
  const attributes = Buffer.alloc(16);
  attributes.writeUInt32LE(programFd, 0);
  attributes.writeUInt32LE(infoBytes, 4);
  attributes.writeBigUInt64LE(libbpf.addressOf(info), 8);
  if (libbpf.bpf(BPF_OBJ_GET_INFO_BY_FD, attributes) !== 0) {
    const errno = libbpf.errno();
    throw new CoralError({
      code: "internal",
      message: `Cannot read the counters of program "${name}": errno ${errno}`,
      details: { errno },
    });
  }
  return { name, runNs: info.readBigUInt64LE(runNsAt), runs: info.readBigUInt64LE(runsAt) };
}

/**
 * Makes the kernel measure every BPF program of the host until disposed; null if it refuses, as it does without CAP_SYS_ADMIN. The kernel then reads
 * the clock twice per run, so hold it only for a part of the time.
 */
export function enableProgramStats(libbpf: Libbpf): Disposable | null {
  const attributes = Buffer.alloc(4);
  attributes.writeUInt32LE(BPF_STATS_RUN_TIME, 0);
  const fd = libbpf.bpf(BPF_ENABLE_STATS, attributes);
  if (fd < 0) return null;
  let isOpen = true;
  return {
    [Symbol.dispose]: () => {
      if (isOpen) libbpf.closeFd(fd);
      isOpen = false;
    },
  };
}
