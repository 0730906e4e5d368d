/**
 * libbpf.so.1 through FFI, with fixed signatures. A wrong pointer ends the process, so this stays small, and whoever uses it runs in a
 * process of its own. Linux only.
 */

import { createRequire } from "node:module";
import { CoralError } from "../base/errors.ts";

type Koffi = typeof import("koffi");
/** An address inside libbpf, or null. */
export type Pointer = object | null;

export interface Libbpf {
  openFile(path: string): Pointer;
  load(object: Pointer): number;
  closeObject(object: Pointer): void;
  nextProgram(object: Pointer, previous: Pointer): Pointer;
  programName(program: Pointer): string;
  setAutoload(program: Pointer, autoload: boolean): number;
  setExpectedAttachType(program: Pointer, type: number): number;
  programFd(program: Pointer): number;
  nextMap(object: Pointer, previous: Pointer): Pointer;
  setMapAutocreate(map: Pointer, autocreate: boolean): number;
  attach(program: Pointer): Pointer;
  attachPerfEvent(program: Pointer, perfFd: number): Pointer;
  attachUprobe(program: Pointer, isReturn: boolean, pid: number, path: string, offset: bigint): Pointer;
  destroyLink(link: Pointer): number;
  loadKernelBtf(): Pointer;
  freeBtf(btf: Pointer): void;
  versionString(): string;
  /** errno of the last call. */
  errno(): number;
  /** What libbpf warned of since the last call of this. */
  takeLog(): string;
  /** perf_event_open(2) for any process on one CPU; a descriptor, or -1. */
  perfEventOpen(attributes: Buffer, pid: number, cpu: number): number;
  /** bpf(2); a descriptor or 0, or -1. */
  bpf(command: number, attributes: Buffer): number;
  /** The address of a buffer, for structures that hold pointers. The caller keeps the buffer alive. */
  addressOf(buffer: Buffer): bigint;
  closeFd(fd: number): void;
}

const syscallNumbers: Readonly<Record<string, { bpf: number; perfEventOpen: number }>> = {
  x64: { bpf: 321, perfEventOpen: 298 },
  arm64: { bpf: 280, perfEventOpen: 241 },
};
const PERF_FLAG_FD_CLOEXEC = 8;
const LIBBPF_WARN = 0;
const maxLogBytes = 16_384;

/** Loads the library; throws `unsupported` when it, or this processor, is not there. */
export function loadLibbpf(): Libbpf {
  const numbers = syscallNumbers[process.arch];
  if (process.platform !== "linux" || numbers === undefined) {
    throw new CoralError({ code: "unsupported", message: `Cannot use BPF: ${process.platform} on ${process.arch} is not supported` });
  }
  let koffi: Koffi;
  let library: ReturnType<Koffi["load"]>;
  try {
    koffi = createRequire(import.meta.url)("koffi") as Koffi;
    library = koffi.load("libbpf.so.1");
  } catch (error) {
    throw new CoralError({ code: "unsupported", message: error instanceof Error ? error.message : String(error), cause: error });
  }
  return {
    ...libraryCalls(library),
    ...systemCalls(koffi, numbers),
    takeLog: captureLog(koffi, library),
    errno: () => koffi.errno(),
  };
}

type LibraryCalls = Omit<Libbpf, "takeLog" | "errno" | keyof SystemCalls>;
type SystemCalls = Pick<Libbpf, "perfEventOpen" | "bpf" | "addressOf" | "closeFd">;

function libraryCalls(library: ReturnType<Koffi["load"]>): LibraryCalls {
  const openFile = library.func("void *bpf_object__open_file(const char *path, void *options)");
  // koffi types every foreign function alike; the C prototype beside each name is what makes the cast true.
  return {
    openFile: (path) => openFile(path, null) as Pointer,
    load: library.func("int bpf_object__load(void *object)") as LibraryCalls["load"],
    closeObject: library.func("void bpf_object__close(void *object)") as LibraryCalls["closeObject"],
    nextProgram: library.func("void *bpf_object__next_program(void *object, void *previous)") as LibraryCalls["nextProgram"],
    programName: library.func("const char *bpf_program__name(void *program)") as LibraryCalls["programName"],
    setAutoload: library.func("int bpf_program__set_autoload(void *program, bool autoload)") as LibraryCalls["setAutoload"],
    setExpectedAttachType: library.func(
      "int bpf_program__set_expected_attach_type(void *program, int type)",
    ) as LibraryCalls["setExpectedAttachType"],
    programFd: library.func("int bpf_program__fd(void *program)") as LibraryCalls["programFd"],
    nextMap: library.func("void *bpf_object__next_map(void *object, void *previous)") as LibraryCalls["nextMap"],
    setMapAutocreate: library.func("int bpf_map__set_autocreate(void *map, bool autocreate)") as LibraryCalls["setMapAutocreate"],
    attach: library.func("void *bpf_program__attach(void *program)") as LibraryCalls["attach"],
    attachPerfEvent: library.func("void *bpf_program__attach_perf_event(void *program, int fd)") as LibraryCalls["attachPerfEvent"],
    attachUprobe: library.func(
      "void *bpf_program__attach_uprobe(void *program, bool isReturn, int pid, const char *path, size_t offset)",
    ) as LibraryCalls["attachUprobe"],
    destroyLink: library.func("int bpf_link__destroy(void *link)") as LibraryCalls["destroyLink"],
    loadKernelBtf: library.func("void *btf__load_vmlinux_btf()") as LibraryCalls["loadKernelBtf"],
    freeBtf: library.func("void btf__free(void *btf)") as LibraryCalls["freeBtf"],
    versionString: library.func("const char *libbpf_version_string()") as LibraryCalls["versionString"],
  };
}

function systemCalls(koffi: Koffi, numbers: { bpf: number; perfEventOpen: number }): SystemCalls {
  const self = koffi.load(null);
  const perf = self.func("syscall", "long", ["long", "void *", "int", "int", "int", "ulong"]);
  const bpf = self.func("syscall", "long", ["long", "int", "void *", "uint"]);
  const close = self.func("int close(int fd)");
  return {
    perfEventOpen: (attributes, pid, cpu) => Number(perf(numbers.perfEventOpen, attributes, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC)),
    bpf: (command, attributes) => Number(bpf(numbers.bpf, command, attributes, attributes.length)),
    addressOf: (buffer) => BigInt(koffi.address(buffer)),
    closeFd: (fd) => {
      close(fd);
    },
  };
}

/**
 * Takes libbpf's warnings instead of letting them go to stderr. A va_list parameter is a pointer on x86-64 and, being a large structure,
 * passed by pointer on arm64 too, so it can be handed on to vsnprintf as it came.
 */
function captureLog(koffi: Koffi, library: ReturnType<Koffi["load"]>): () => string {
  const vsnprintf = koffi.load(null).func("int vsnprintf(void *target, size_t size, const char *format, void *arguments)");
  const prototype = koffi.proto("int CoralLibbpfPrint(int level, const char *format, void *arguments)");
  const line = Buffer.alloc(4096);
  let log = "";
  const callback = koffi.register((level: number, format: string, args: Pointer): number => {
    if (level !== LIBBPF_WARN) return 0;
    const length = Number(vsnprintf(line, line.length, format, args));
    if (log.length < maxLogBytes) log += line.toString("utf8", 0, Math.min(length, line.length - 1));
    return length;
  }, koffi.pointer(prototype));
  library.func("void *libbpf_set_print(CoralLibbpfPrint *print)")(callback);
  return () => {
    const taken = log;
    log = "";
    return taken;
  };
}
