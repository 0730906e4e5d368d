/** Reads the memory of other processes. Unlike the `mem` files of procfs, process_vm_readv(2) needs no more than CAP_SYS_PTRACE. */

import { createRequire } from "node:module";
import { CoralError } from "../base/errors.ts";

export interface ProcessMemory {
  /** Returns fewer bytes, or none, if the process lacks the memory, has exited, or may not be read. */
  read(pid: number, address: number, sizeBytes: number): Buffer;
}

type ReadCall = (pid: number, local: BigUint64Array, locals: number, remote: BigUint64Array, remotes: number, flags: number) => number;

/** Longer reads take several calls. */
const pieceBytes = 64 * 1024;

export function openProcessMemory(): ProcessMemory {
  const koffi = loadKoffi();
  const call = koffi
    .load(null)
    .func(
      "long process_vm_readv(int pid, const void *local, unsigned long locals, const void *remote, unsigned long remotes, unsigned long flags)",
    ) as ReadCall;
  // One buffer for all calls, whose address is determined once. It has its own ArrayBuffer, which V8 does not move.
  const piece = Buffer.from(new ArrayBuffer(pieceBytes));
  const local = new BigUint64Array([BigInt(koffi.address(piece)), 0n]);
  const remote = new BigUint64Array(2);
  const readPiece = (pid: number, address: number, sizeBytes: number): number => {
    local[1] = BigInt(sizeBytes);
    remote[0] = BigInt(address);
    remote[1] = BigInt(sizeBytes);
    return Math.max(0, call(pid, local, 1, remote, 1, 0));
  };
  return {
    read: (pid, address, sizeBytes) => {
      if (!Number.isSafeInteger(address) || address <= 0 || sizeBytes <= 0) return Buffer.alloc(0);
      const pieces: Buffer[] = [];
      for (let done = 0; done < sizeBytes; ) {
        const wanted = Math.min(pieceBytes, sizeBytes - done);
        const length = readPiece(pid, address + done, wanted);
        pieces.push(Buffer.from(piece.subarray(0, length)));
        done += length;
        if (length < wanted) break;
      }
      return pieces.length === 1 ? (pieces[0] ?? Buffer.alloc(0)) : Buffer.concat(pieces);
    },
  };
}

function loadKoffi(): typeof import("koffi") {
  try {
    return createRequire(import.meta.url)("koffi") as typeof import("koffi");
  } catch (cause) {
    throw new CoralError({ code: "unsupported", message: 'cannot read memory: the native library "koffi" does not load here', cause });
  }
}
