/**
 * libbpf.so.1 through FFI, with fixed signatures. A wrong pointer crashes the process, so this stays small, and its users run in their own process.
 * Linux only.
 */

import { createRequire } from "node:module";
import { CoralError } from "../base/errors.ts";

type Koffi = typeof import("koffi");
/** An address inside libbpf, or null. */
export type Pointer = object | null;
/** Arguments and results as in libbpf's headers: an `int` result is 0 or a negative errno. */

export interface Libbpf {
  openFile(path: string): Pointer;
  load(object: Pointer): number;
  /** On a thread of the pool: loading large programs takes a second in the verifier. */
  loadAsync(object: Pointer): Promise<number>;
  closeObject(object: Pointer): void;
  closeObjectAsync(object: Pointer): Promise<void>;
  nextProgram(object: Pointer, previous: Pointer): Pointer;
  programName(program: Pointer): string;
  programSection(program: Pointer): string;
  setAutoload(program: Pointer, autoload: boolean): number;
  setExpectedAttachType(program: Pointer, type: number): number;
  programFd(program: Pointer): number;
  nextMap(object: Pointer, previous: Pointer): Pointer;
  setMapAutocreate(map: Pointer, autocreate: boolean): number;
  mapName(map: Pointer): string;
  findMap(object: Pointer, name: string): Pointer;
  mapFd(map: Pointer): number;
  mapType(map: Pointer): number;
  mapKeySize(map: Pointer): number;
  mapValueSize(map: Pointer): number;
  mapMaxEntries(map: Pointer): number;
  setMapMaxEntries(map: Pointer, entries: number): number;
  /** The initial contents of a section such as `.rodata`, which can be changed before the object is loaded; null if there are none. */
  mapInitialValue(map: Pointer): Buffer | null;
  /** A copy of the object's BTF, with the offsets of variables filled in. */
  objectBtf(object: Pointer): Buffer;
  mapLookup(fd: number, key: Buffer, value: Buffer): number;
  mapUpdate(fd: number, key: Buffer, value: Buffer, flags: number): number;
  mapDelete(fd: number, key: Buffer): number;
  mapNextKey(fd: number, key: Buffer | null, next: Buffer): number;
  /** `count` holds a u32: the capacity, then the number of entries read. `position` is null at first; `next` receives the next position. */
  mapLookupBatch(fd: number, position: Buffer | null, next: Buffer, keys: Buffer, values: Buffer, count: Buffer): number;
  mapLookupAndDeleteBatch(fd: number, position: Buffer | null, next: Buffer, keys: Buffer, values: Buffer, count: Buffer): number;
  possibleCpus(): number;
  attach(program: Pointer): Pointer;
  attachPerfEvent(program: Pointer, perfFd: number): Pointer;
  attachUprobe(program: Pointer, isReturn: boolean, pid: number, path: string, offset: bigint): Pointer;
  destroyLink(link: Pointer): number;
  /** On a thread of the pool: detaching waits for a grace period of the kernel, up to 0.1 s. */
  destroyLinkAsync(link: Pointer): Promise<number>;
  loadKernelBtf(): Pointer;
  freeBtf(btf: Pointer): void;
  /** Number of a type, or a negative errno. */
  findType(btf: Pointer, name: string, kind: number): number;
  versionString(): string;
  /** errno of the last call. */
  errno(): number;
  /** Returns libbpf's warnings since the last call. */
  takeLog(): string;
  /** perf_event_open(2) for any process on one CPU; a descriptor, or -1. */
  perfEventOpen(attributes: Buffer, pid: number, cpu: number): number;
  /** bpf(2); a descriptor or 0, or -1. */
  bpf(command: number, attributes: Buffer): number;
  /** As `bpf`, on a thread of the pool; returns a negative errno instead of -1. `referenced`: buffers whose addresses are in the attributes. */
  bpfAsync(command: number, attributes: Buffer, referenced: readonly Buffer[]): Promise<number>;
  /** mmap(2) of a descriptor, shared; null and errno if refused. Access after `munmap` crashes the process. */
  mmap(fd: number, lengthBytes: number, offsetBytes: number, isWritable: boolean): ArrayBuffer | null;
  munmap(memory: ArrayBuffer): void;
  /** The page size of this machine. */
  pageBytes(): number;
  /** The address of a buffer, for structures that hold pointers. The caller keeps the buffer alive. */
  addressOf(buffer: Buffer): bigint;
  closeFd(fd: number): void;
  /** On a thread of the pool: the last descriptor of a link detaches it. */
  closeFdAsync(fd: number): Promise<void>;
  /** eventfd(2); a descriptor, or -1. */
  openEvent(): number;
  signalEvent(fd: number): void;
  /** epoll_create1(2); a descriptor, or -1. */
  openPoll(): number;
  /** Adds a descriptor to wait for until it is readable; edge-triggered, each change is reported once. */
  addToPoll(poll: number, fd: number, byEdge: boolean): boolean;
  /** Waits on a thread of the pool until something is readable. Also returns when a signal interrupts it. */
  waitForPoll(poll: number): Promise<void>;
}

const syscallNumbers: Readonly<Record<string, { bpf: number; perfEventOpen: number }>> = {
  x64: { bpf: 321, perfEventOpen: 298 },
  arm64: { bpf: 280, perfEventOpen: 241 },
};
const PERF_FLAG_FD_CLOEXEC = 8;
const LIBBPF_WARN = 0;
const maxLogBytes = 16_384;
/** The verifier's output for a program is one message. */
const maxLogMessageBytes = 1 << 20;
const PROT_READ = 1;
const PROT_WRITE = 2;
const MAP_SHARED = 1;
const MAP_FAILED = 2n ** 64n - 1n;
/** <sys/epoll.h>, <sys/eventfd.h> */
const EPOLL_CLOEXEC = 0x8_0000;
const EPOLL_CTL_ADD = 1;
const EPOLLIN = 1;
const EPOLLET = 0x8000_0000;
const EINTR = 4;
const EFD_CLOEXEC = 0x8_0000;
const EFD_NONBLOCK = 0x800;

let loaded: Libbpf | undefined;

/** Loads the library once; throws `unsupported` if it is missing, or the processor is not supported. */
export function loadLibbpf(): Libbpf {
  loaded ??= load();
  return loaded;
}

function load(): Libbpf {
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
    ...mapCalls(koffi, library),
    ...systemCalls(koffi, numbers),
    ...pollCalls(koffi),
    takeLog: captureLog(koffi, library),
    errno: () => koffi.errno(),
  };
}

type LibraryCalls = Omit<Libbpf, "takeLog" | "errno" | keyof SystemCalls | keyof MapCalls | keyof PollCalls>;
type SystemCalls = Pick<
  Libbpf,
  "perfEventOpen" | "bpf" | "bpfAsync" | "addressOf" | "closeFd" | "closeFdAsync" | "mmap" | "munmap" | "pageBytes"
>;
type PollCalls = Pick<Libbpf, "openEvent" | "signalEvent" | "openPoll" | "addToPoll" | "waitForPoll">;
type MapCalls = Pick<
  Libbpf,
  | Extract<keyof Libbpf, `map${Capitalize<string>}`>
  | "findMap"
  | "nextMap"
  | "setMapAutocreate"
  | "setMapMaxEntries"
  | "objectBtf"
  | "possibleCpus"
>;
type ForeignFunction = ReturnType<ReturnType<Koffi["load"]>["func"]>;

/** Arguments of running calls: the garbage collector must not free a buffer that another thread reads. */
const inFlight = new Set<readonly unknown[]>();

/** Runs a foreign function on a thread of the pool. */
function onPool<T>(call: ForeignFunction, ...args: unknown[]): Promise<T> {
  inFlight.add(args);
  return new Promise<T>((resolve, reject) => {
    call.async(...args, (error: Error | null, result: T) => {
      inFlight.delete(args);
      if (error) reject(error);
      else resolve(result);
    });
  });
}

function libraryCalls(library: ReturnType<Koffi["load"]>): LibraryCalls {
  const openFile = library.func("void *bpf_object__open_file(const char *path, void *options)");
  const loadObject = library.func("int bpf_object__load(void *object)");
  const closeObject = library.func("void bpf_object__close(void *object)");
  const destroyLink = library.func("int bpf_link__destroy(void *link)");
  // koffi types every foreign function alike; the C prototype beside each name is what makes the cast true.
  return {
    openFile: (path) => openFile(path, null) as Pointer,
    load: loadObject as LibraryCalls["load"],
    loadAsync: (object) => onPool(loadObject, object),
    closeObject: closeObject as LibraryCalls["closeObject"],
    closeObjectAsync: (object) => onPool(closeObject, object),
    nextProgram: library.func("void *bpf_object__next_program(void *object, void *previous)") as LibraryCalls["nextProgram"],
    programName: library.func("const char *bpf_program__name(void *program)") as LibraryCalls["programName"],
    programSection: library.func("const char *bpf_program__section_name(void *program)") as LibraryCalls["programSection"],
    setAutoload: library.func("int bpf_program__set_autoload(void *program, bool autoload)") as LibraryCalls["setAutoload"],
    setExpectedAttachType: library.func(
      "int bpf_program__set_expected_attach_type(void *program, int type)",
    ) as LibraryCalls["setExpectedAttachType"],
    programFd: library.func("int bpf_program__fd(void *program)") as LibraryCalls["programFd"],
    attach: library.func("void *bpf_program__attach(void *program)") as LibraryCalls["attach"],
    attachPerfEvent: library.func("void *bpf_program__attach_perf_event(void *program, int fd)") as LibraryCalls["attachPerfEvent"],
    attachUprobe: library.func(
      "void *bpf_program__attach_uprobe(void *program, bool isReturn, int pid, const char *path, size_t offset)",
    ) as LibraryCalls["attachUprobe"],
    destroyLink: destroyLink as LibraryCalls["destroyLink"],
    destroyLinkAsync: (link) => onPool(destroyLink, link),
    loadKernelBtf: library.func("void *btf__load_vmlinux_btf()") as LibraryCalls["loadKernelBtf"],
    freeBtf: library.func("void btf__free(void *btf)") as LibraryCalls["freeBtf"],
    findType: library.func("int btf__find_by_name_kind(void *btf, const char *name, uint32_t kind)") as LibraryCalls["findType"],
    versionString: library.func("const char *libbpf_version_string()") as LibraryCalls["versionString"],
  };
}

function mapCalls(koffi: Koffi, library: ReturnType<Koffi["load"]>): MapCalls {
  const initialValue = library.func("void *bpf_map__initial_value(void *map, _Out_ size_t *size)");
  const objectBtf = library.func("void *bpf_object__btf(void *object)");
  const rawBtf = library.func("void *btf__raw_data(void *btf, _Out_ uint32_t *size)");
  const batch = "(int fd, void *position, void *next, void *keys, void *values, void *count, void *options)";
  const lookupBatch = library.func(`int bpf_map_lookup_batch${batch}`);
  const lookupAndDeleteBatch = library.func(`int bpf_map_lookup_and_delete_batch${batch}`);
  const sized = (read: (size: [number]) => Pointer): Buffer | null => {
    const size: [number] = [0];
    const start = read(size);
    return start === null ? null : Buffer.from(koffi.view(start, size[0]));
  };
  return {
    nextMap: library.func("void *bpf_object__next_map(void *object, void *previous)") as MapCalls["nextMap"],
    setMapAutocreate: library.func("int bpf_map__set_autocreate(void *map, bool autocreate)") as MapCalls["setMapAutocreate"],
    mapName: library.func("const char *bpf_map__name(void *map)") as MapCalls["mapName"],
    findMap: library.func("void *bpf_object__find_map_by_name(void *object, const char *name)") as MapCalls["findMap"],
    mapFd: library.func("int bpf_map__fd(void *map)") as MapCalls["mapFd"],
    mapType: library.func("int bpf_map__type(void *map)") as MapCalls["mapType"],
    mapKeySize: library.func("uint32_t bpf_map__key_size(void *map)") as MapCalls["mapKeySize"],
    mapValueSize: library.func("uint32_t bpf_map__value_size(void *map)") as MapCalls["mapValueSize"],
    mapMaxEntries: library.func("uint32_t bpf_map__max_entries(void *map)") as MapCalls["mapMaxEntries"],
    setMapMaxEntries: library.func("int bpf_map__set_max_entries(void *map, uint32_t entries)") as MapCalls["setMapMaxEntries"],
    mapInitialValue: (map) => sized((size) => initialValue(map, size) as Pointer),
    objectBtf: (object) => Buffer.from(sized((size) => rawBtf(objectBtf(object), size) as Pointer) ?? Buffer.alloc(0)),
    mapLookup: library.func("int bpf_map_lookup_elem(int fd, void *key, void *value)") as MapCalls["mapLookup"],
    mapUpdate: library.func("int bpf_map_update_elem(int fd, void *key, void *value, uint64_t flags)") as MapCalls["mapUpdate"],
    mapDelete: library.func("int bpf_map_delete_elem(int fd, void *key)") as MapCalls["mapDelete"],
    mapNextKey: library.func("int bpf_map_get_next_key(int fd, void *key, void *next)") as MapCalls["mapNextKey"],
    mapLookupBatch: (fd, position, next, keys, values, count) => Number(lookupBatch(fd, position, next, keys, values, count, null)),
    mapLookupAndDeleteBatch: (fd, position, next, keys, values, count) =>
      Number(lookupAndDeleteBatch(fd, position, next, keys, values, count, null)),
    possibleCpus: library.func("int libbpf_num_possible_cpus()") as MapCalls["possibleCpus"],
  };
}

function systemCalls(koffi: Koffi, numbers: { bpf: number; perfEventOpen: number }): SystemCalls {
  const self = koffi.load(null);
  const perf = self.func("syscall", "long", ["long", "void *", "int", "int", "int", "ulong"]);
  const bpf = self.func("syscall", "long", ["long", "int", "void *", "uint"]);
  const close = self.func("int close(int fd)");
  const mmap = self.func("void *mmap(void *address, size_t length, int protection, int flags, int fd, int64_t offset)");
  const munmap = self.func("int munmap(void *address, size_t length)");
  return {
    perfEventOpen: (attributes, pid, cpu) => Number(perf(numbers.perfEventOpen, attributes, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC)),
    bpf: (command, attributes) => Number(bpf(numbers.bpf, command, attributes, attributes.length)),
    bpfAsync: async (command, attributes, referenced) => {
      inFlight.add(referenced);
      const result = Number(await onPool(bpf, numbers.bpf, command, attributes, attributes.length));
      const errno = koffi.errno();
      inFlight.delete(referenced);
      return result === -1 ? -errno : result;
    },
    mmap: (fd, lengthBytes, offsetBytes, isWritable) => {
      const start = mmap(null, lengthBytes, isWritable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, offsetBytes) as Pointer;
      return start === null || BigInt(koffi.address(start)) === MAP_FAILED ? null : koffi.view(start, lengthBytes);
    },
    munmap: (memory) => {
      munmap(memory, memory.byteLength);
    },
    pageBytes: self.func("int getpagesize()") as SystemCalls["pageBytes"],
    addressOf: (buffer) => BigInt(koffi.address(buffer)),
    closeFd: (fd) => {
      close(fd);
    },
    closeFdAsync: async (fd) => {
      await onPool(close, fd);
    },
  };
}

function pollCalls(koffi: Koffi): PollCalls {
  const self = koffi.load(null);
  const eventfd = self.func("int eventfd(unsigned int value, int flags)");
  const write = self.func("long write(int fd, void *bytes, size_t count)");
  const create = self.func("int epoll_create1(int flags)");
  const control = self.func("int epoll_ctl(int poll, int operation, int fd, void *event)");
  const wait = self.func("int epoll_wait(int poll, void *events, int count, int timeoutMs)");
  const one = Buffer.alloc(8);
  one.writeUInt32LE(1);
  // struct epoll_event; packed to 12 bytes on x86-64, 16 elsewhere. Its contents are not read.
  const event = Buffer.alloc(16);
  return {
    openEvent: () => Number(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
    signalEvent: (fd) => {
      write(fd, one, one.length);
    },
    openPoll: () => Number(create(EPOLL_CLOEXEC)),
    addToPoll: (poll, fd, byEdge) => {
      const interest = Buffer.alloc(16);
      interest.writeUInt32LE(byEdge ? EPOLLIN + EPOLLET : EPOLLIN);
      return control(poll, EPOLL_CTL_ADD, fd, interest) === 0;
    },
    waitForPoll: async (poll) => {
      if (Number(await onPool(wait, poll, event, 1, -1)) >= 0) return;
      const errno = koffi.errno();
      if (errno !== EINTR)
        throw new CoralError({ code: "internal", message: `Cannot wait for descriptors: errno ${errno}`, details: { errno } });
    },
  };
}

/**
 * Collects libbpf's warnings, which would go to stderr. A va_list parameter is a pointer on x86-64 and, being a large structure, passed by pointer on
 * arm64, too, so it can be passed on to vsnprintf unchanged.
 */
function captureLog(koffi: Koffi, library: ReturnType<Koffi["load"]>): () => string {
  const vsnprintf = koffi.load(null).func("int vsnprintf(void *target, size_t size, const char *format, void *arguments)");
  const prototype = koffi.proto("int CoralLibbpfPrint(int level, const char *format, void *arguments)");
  // A va_list can be read only once, so the buffer must fit; allocated at the first warning.
  let line: Buffer | undefined;
  let log = "";
  const callback = koffi.register((level: number, format: string, args: Pointer): number => {
    if (level !== LIBBPF_WARN) return 0;
    line ??= Buffer.alloc(maxLogMessageBytes);
    const length = Number(vsnprintf(line, line.length, format, args));
    // Keep the end, where the verifier states the problem.
    log = (log + line.toString("utf8", 0, Math.min(length, line.length - 1))).slice(-maxLogBytes);
    return length;
  }, koffi.pointer(prototype));
  library.func("void *libbpf_set_print(CoralLibbpfPrint *print)")(callback);
  return () => {
    const taken = log;
    log = "";
    line = undefined;
    return taken;
  };
}
