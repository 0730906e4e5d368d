/**
 * Which build of an interpreted program runs: a hash of its entry script, the version in its manifest, and its lockfile. The interpreter is
 * not part of it. Contents are hashed, never kept.
 */

import { createHash, hash } from "node:crypto";
import { readSync } from "node:fs";
import type { HostRoot } from "../files/host-root.ts";
import { readKernelUnits } from "./auxiliary-vector.ts";
import type { ExecutableFile } from "./executable-builds.ts";
import { findProgramFiles, type InterpreterCall, type ProgramFile } from "./program-files.ts";

/** The program of a process, found when the process was first seen. */
export interface ScriptProgram {
  /** Before the path of each file, to find it on the host. */
  readonly prefix: string;
  readonly files: readonly ProgramFile[];
  /** Build when the process started; null if the files changed between the start and the first scan, because then the running code is unknown. */
  readonly atStart: ExecutableFile | null;
}

export interface InterpretedProcess extends Omit<InterpreterCall, "prefix"> {
  pid: number;
  startTicks: number;
  isContained: boolean;
  /** Equal for processes that were forked without exec(2), which run the code that their parent has loaded; null if unknown. */
  image: string | null;
}

export interface ScriptBuilds {
  /** Null if the program cannot be found or read; then the interpreter's build is used. */
  of(process: InterpretedProcess): ScriptProgram | null;
  /** The build on disk now; null if the files are gone. */
  onDisk(program: ScriptProgram): ExecutableFile | null;
}

/** Files up to this size are hashed completely, larger ones at both ends: archives list the checksums of their content at the end. */
const maxWholeBytes = 4 * 1024 * 1024;
const headBytes = 1024 * 1024;
const tailBytes = 3 * 1024 * 1024;
const maxManifestBytes = 256 * 1024;
/** Cached digests; the oldest is evicted first. */
const maxRemembered = 4096;
/** File times and process start times differ by a tick or two. */
const toleranceMs = 1_500;

export function createScriptBuilds(root: HostRoot): ScriptBuilds {
  return new HashedScripts(root);
}

function rootOf({ pid }: InterpretedProcess): string {
  return `/proc/${pid}/root`;
}

interface Measured extends ExecutableFile {
  newestMs: number;
}

class HashedScripts implements ScriptBuilds {
  readonly #root: HostRoot;
  readonly #ticksPerS = readKernelUnits().ticksPerS;
  /** By use, and the file's device, inode, time of change and size. */
  readonly #digests = new Map<string, string>();
  readonly #images = new Map<string, ScriptProgram>();

  constructor(root: HostRoot) {
    this.#root = root;
  }

  of(process: InterpretedProcess): ScriptProgram | null {
    const { image } = process;
    const known = image === null ? undefined : this.#images.get(image);
    if (known !== undefined) return { ...known, prefix: known.prefix && rootOf(process) };
    const program = this.#read(process);
    if (image === null || program === null) return program;
    if (this.#images.size >= maxRemembered) this.#images.clear();
    this.#images.set(image, program);
    return program;
  }

  #read(process: InterpretedProcess): ScriptProgram | null {
    const isFile = (path: string): boolean => this.#root.stat(path)?.isFile ?? false;
    const list = (path: string): readonly string[] => this.#root.list(path) ?? [];
    const find = (prefix: string): readonly ProgramFile[] | null => findProgramFiles({ ...process, prefix }, { isFile, list });
    // A process may see other files under the same path. Without permission to read them, the host's are used.
    const own = find(rootOf(process));
    const files = own ?? (process.isContained ? null : find(""));
    const prefix = own === null ? "" : rootOf(process);
    const measured = files && this.#measure(prefix, files);
    if (!files || !measured) return null;
    const { key, build } = measured;
    const startedMs = this.#startedMs(process.startTicks);
    const isChanged = startedMs !== null && measured.newestMs > startedMs + toleranceMs;
    return { prefix, files, atStart: isChanged ? null : { key, build } };
  }

  onDisk({ prefix, files }: ScriptProgram): ExecutableFile | null {
    const measured = this.#measure(prefix, files);
    return measured && { key: measured.key, build: measured.build };
  }

  #startedMs(startTicks: number): number | null {
    const uptimeS = Number.parseFloat(this.#root.readText("/proc/uptime") ?? "");
    return Number.isFinite(uptimeS) ? Date.now() - uptimeS * 1_000 + (startTicks / this.#ticksPerS) * 1_000 : null;
  }

  #measure(prefix: string, files: readonly ProgramFile[]): Measured | null {
    const keys: string[] = [];
    const digests: string[] = [];
    let newestMs = 0;
    for (const { path: seen, use } of files) {
      const path = prefix + seen;
      const facts = this.#root.stat(path);
      if (!facts?.isFile) return null;
      const key = `${facts.device}:${facts.inode}:${facts.modifiedMs}:${facts.sizeBytes}`;
      const digest = this.#digestOf(path, use, key, facts.sizeBytes);
      if (digest === null) return null;
      keys.push(key);
      digests.push(`${use} ${digest}`);
      newestMs = Math.max(newestMs, facts.modifiedMs);
    }
    return { key: `script ${keys.join(" ")}`, build: { id: hash("sha256", digests.join("\n"), "hex"), kind: "script" }, newestMs };
  }

  #digestOf(path: string, use: ProgramFile["use"], key: string, sizeBytes: number): string | null {
    const name = `${use} ${key}`;
    const known = this.#digests.get(name);
    if (known !== undefined) return known;
    const digest = use === "version" ? this.#versionIn(path) : this.#hashOf(path, sizeBytes);
    if (digest === null) return null;
    this.#digests.set(name, digest);
    const [oldest] = this.#digests.keys();
    if (this.#digests.size > maxRemembered && oldest !== undefined) this.#digests.delete(oldest);
    return digest;
  }

  /** Empty when the manifest has none. */
  #versionIn(path: string): string | null {
    const text = this.#root.readText(path, undefined, maxManifestBytes);
    if (text === null) return null;
    if (/\.jsonc?$/.test(path)) return /"version"\s*:\s*"([^"]{1,64})"/.exec(text)?.[1] ?? "";
    return /^\s*version\s*=\s*["']?([\w.+-]{1,64})/m.exec(text)?.[1] ?? "";
  }

  #hashOf(path: string, sizeBytes: number): string | null {
    return this.#root.withOpen(path, (descriptor) => {
      const sum = createHash("sha256").update(`${sizeBytes}\n`);
      const add = (from: number, length: number): void => {
        const bytes = Buffer.allocUnsafe(length);
        sum.update(bytes.subarray(0, readSync(descriptor, bytes, 0, length, from)));
      };
      if (sizeBytes <= maxWholeBytes) add(0, sizeBytes);
      else {
        add(0, headBytes);
        add(sizeBytes - tailBytes, tailBytes);
      }
      return sum.digest("hex");
    });
  }
}
