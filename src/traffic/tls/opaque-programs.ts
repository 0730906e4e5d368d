/** Finds out why the TLS of a program cannot be read: unsupported library, no symbols, or unknown. Done only after such a connection was seen. */

import { basename } from "node:path";
import { setImmediate } from "node:timers/promises";
import type { CodeMaps, MappedFile, OpenedFile } from "../../host/index.ts";

export interface OpaqueProgram {
  path: string;
  problem: string;
  /** Running processes with such connections. */
  pids: Set<number>;
}

const libraries: readonly [name: RegExp, library: string][] = [
  [/^libgnutls\.so/, "GnuTLS"],
  [/^lib(?:nss3|ssl3)\.so/, "NSS"],
  [/^libmbedtls\.so/, "Mbed TLS"],
  [/^libwolfssl\.so/, "wolfSSL"],
  [/^libbotan/, "Botan"],
  [/^libjvm\.so/, "Java's own TLS"],
];

/** Strings that a library leaves in every program it is linked into. */
const marks: readonly [text: Buffer, library: string][] = [
  [Buffer.from("BoringSSL"), "BoringSSL"],
  [Buffer.from("OpenSSL 1."), "OpenSSL"],
  [Buffer.from("OpenSSL 3."), "OpenSSL"],
  [Buffer.from("LibreSSL "), "LibreSSL"],
  [Buffer.from("rustls"), "rustls"],
  [Buffer.from("mbed TLS"), "Mbed TLS"],
];
const markBytes = 16;
const pieceBytes = 1024 * 1024;
const maxScannedBytes = 256 * 1024 * 1024;
const maxPrograms = 64;

export class OpaquePrograms {
  readonly #maps: CodeMaps;
  readonly #programs = new Map<string, OpaqueProgram>();

  constructor(maps: CodeMaps) {
    this.#maps = maps;
  }

  /** `files` are the mappings of the process. Each program is inspected once; above the limit, programs are only counted as lost. */
  async add(pid: number, executable: string, files: readonly MappedFile[]): Promise<void> {
    const known = this.#programs.get(executable);
    if (known !== undefined) {
      known.pids.add(pid);
      return;
    }
    if (this.#programs.size >= maxPrograms) return;
    const program: OpaqueProgram = { path: executable, problem: "no known TLS library was found in it", pids: new Set([pid]) };
    this.#programs.set(executable, program);
    const other = libraries.find(([name]) => files.some(({ path }) => name.test(basename(path))));
    if (other !== undefined) {
      program.problem = `${other[1]} is not supported`;
      return;
    }
    const file = files.find(({ path }) => path === executable);
    using opened = file === undefined ? null : this.#maps.open(pid, file);
    const mark = opened === null ? null : await findMark(opened);
    if (mark !== null) program.problem = `${mark} is linked into it without symbols`;
  }

  /** Drops processes that have ended, or have loaded a supported library. */
  drop(isSettled: (pid: number) => boolean): void {
    for (const [path, { pids }] of this.#programs) {
      for (const pid of pids) if (isSettled(pid)) pids.delete(pid);
      if (pids.size === 0) this.#programs.delete(path);
    }
  }

  values(): IterableIterator<OpaqueProgram> {
    return this.#programs.values();
  }
}

/** Scans in pieces, yielding in between: a program may have a hundred megabytes. */
async function findMark(file: OpenedFile): Promise<string | null> {
  const buffer = Buffer.alloc(pieceBytes);
  const end = Math.min(file.sizeBytes, maxScannedBytes);
  for (let start = 0; start < end; start += pieceBytes - markBytes) {
    const piece = buffer.subarray(0, file.readAt(buffer, start));
    const found = marks.find(([text]) => piece.includes(text));
    if (found !== undefined) return found[1];
    if (piece.length < pieceBytes) return null;
    await setImmediate();
  }
  return null;
}
