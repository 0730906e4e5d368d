/** A mapped file with code: its unwind tables, read where samples need them, and its function names. */

import {
  type CallFrames,
  createFunctionNames,
  type ElfImage,
  type FrameFunction,
  type FunctionNames,
  findExportedFunctions,
  isGoProgram,
  type PythonProgram,
  readBuildId,
  readCallFrames,
  readElfImage,
  readPythonProgram,
  readV8Layout,
  type V8Layout,
} from "../../code/index.ts";
import type { CodeMapping, OpenedFile } from "../../host/index.ts";

/** Limit on cached names per file. */
const maxNames = 4_096;
/** Exported by what embeds the runtime: a look into a hash table decides whether more is read. */
const exportOfNode = "napi_create_function";
const exportOfPython = "_PyEval_EvalFrameDefault";

export class CodeFile implements Disposable {
  /** `libc.so.6` */
  readonly module: string;
  readonly isGo: boolean;
  readonly build: string | null;
  readonly #image: ElfImage | null;
  readonly #frames: CallFrames | null;
  readonly #functions: FunctionNames | null;
  readonly #names = new Map<number, string>();
  readonly #close: (() => void) | undefined;
  #v8: V8Layout | null | undefined;
  #python: PythonProgram | null | undefined;
  /** When a sample last hit it. */
  usedMs = 0;
  /** Frames of samples in it, until its symbols are read. */
  hits = 0;

  constructor(module: string, image: ElfImage | null, close?: () => void) {
    this.module = module;
    this.#image = image;
    this.#close = close;
    this.isGo = image !== null && isGoProgram(image);
    this.build = image === null ? null : readBuildId(image.readAt);
    this.#frames = image === null ? null : readCallFrames(image);
    this.#functions = image === null ? null : createFunctionNames(image);
  }

  /** Keeps the file open until disposed. */
  static of(module: string, opened: OpenedFile): CodeFile {
    return new CodeFile(module, readElfImage(opened.readAt), () => opened[Symbol.dispose]());
  }

  static ofBytes(module: string, bytes: Buffer): CodeFile {
    return new CodeFile(
      module,
      readElfImage((into, offset) => bytes.copy(into, 0, Math.min(offset, bytes.length))),
    );
  }

  /** Converts a file offset to an address as its tables use them; null if that part is not loaded. */
  addressOf(fileOffset: number): number | null {
    const segment = this.#image?.segments.find(
      (one) => one.type === 1 && fileOffset >= one.fileOffset && fileOffset < one.fileOffset + one.fileBytes,
    );
    return segment === undefined ? null : fileOffset - segment.fileOffset + segment.address;
  }

  /** Offset between the file's addresses and those of a process that maps it; null if the mapping has no code. */
  biasOf({ start, end, fileOffset }: CodeMapping): number | null {
    const segment = this.#image?.segments.find(
      (one) =>
        one.type === 1 && one.isExecutable && fileOffset < one.fileOffset + one.fileBytes && fileOffset + end - start > one.fileOffset,
    );
    return segment === undefined ? null : start - fileOffset + segment.fileOffset - segment.address;
  }

  /** V8's data layout in Node and its library; null for all other files. */
  get v8(): V8Layout | null {
    const image = this.#image;
    if (this.#v8 === undefined) this.#v8 = image !== null && exports(image, exportOfNode) ? readV8Layout(image) : null;
    return this.#v8;
  }

  /** Layout of CPython and its library; null for all other files. */
  get python(): PythonProgram | null {
    const image = this.#image;
    if (this.#python === undefined) this.#python = image !== null && exports(image, exportOfPython) ? readPythonProgram(image) : null;
    return this.#python;
  }

  /** How to unwind from the function at an address to its caller. */
  frameAt(address: number): FrameFunction | null {
    return this.#frames?.find(address) ?? null;
  }

  /** Size of symbols that `name` may have to read. */
  get unreadBytes(): number {
    return this.#functions?.unreadBytes ?? 0;
  }

  /** Memory of tables, which `release` frees until they are needed again. */
  get tableBytes(): number {
    return (this.#frames?.sizeBytes ?? 0) + (this.#functions?.sizeBytes ?? 0);
  }

  release(): void {
    this.#frames?.release();
    this.#functions?.release();
  }

  name(addresses: readonly number[]): void {
    const missing = [...new Set(addresses.map((address) => this.#keyOf(address)))].filter((address) => !this.#names.has(address));
    if (missing.length === 0) return;
    if (this.#names.size + missing.length > maxNames) this.#names.clear();
    const named = this.#functions?.find(missing);
    for (const address of missing) this.#names.set(address, named?.get(address)?.name ?? this.#placeOf(address));
  }

  /**
   * Call `name` first. For an unknown function `nginx+0x70810`: its start according to the tables, so that all its samples share a name.
   */
  nameOf(address: number): string {
    const key = this.#keyOf(address);
    return this.#names.get(key) ?? this.#placeOf(key);
  }

  /** Start of the function according to the tables, so that all samples in one function share a name and one symbol search. */
  #keyOf(address: number): number {
    return this.frameAt(address)?.start ?? address;
  }

  #placeOf(address: number): string {
    return `${this.module}+0x${address.toString(16)}`;
  }

  [Symbol.dispose](): void {
    this.#close?.();
  }
}

function exports(image: ElfImage, name: string): boolean {
  return findExportedFunctions(image, [name]).size > 0;
}
