/** Plans which sites of a file to probe for TLS plaintext, and with which program of `probes/tls/uprobes.h`. */

import { CoralError } from "../../base/errors.ts";
import {
  chooseEntrySite,
  chooseExitSites,
  costsNs,
  decodeFunction,
  type ElfFunction,
  type ElfImage,
  findCalls,
  findElfFunctions,
  findExportedFunctions,
  findForwarding,
  findSpillFrame,
  isGoProgram,
  type MachineInstruction,
  type ProbeSite,
  readGoProgram,
} from "../../code/index.ts";
import { type CopyPlan, methodName, planCopies } from "./copy-plan.ts";

/** Same as in `probes/tls/binding.h`. */
export const siteCookies = {
  read: 1,
  write: 2,
  free: 3,
  countByPointer: 16,
  go: 32,
  copy: 64,
  mayBeginAgain: 128,
  frameShift: 16,
} as const;

export interface PlannedProbe {
  program: "tls_enter" | "tls_plaintext" | "tls_copy";
  /** Probe the return of the function that starts at the site. */
  isReturn: boolean;
  fileOffset: number;
  /** The cookie of the BPF program: one of `siteCookies`, or for `tls_copy` where arguments are kept. */
  cookie: number;
}

export interface ProbePlan {
  library: "openssl" | "go";
  probes: PlannedProbe[];
  /** Estimated cost of the most expensive call, without the BPF programs themselves. */
  costNs: number;
}

/** Why a file that implements TLS cannot be probed, for users. */
export interface PlanProblem {
  library: "openssl" | "go";
  problem: string;
}

const opensslNames = ["SSL_read", "SSL_read_ex", "SSL_write", "SSL_write_ex", "SSL_free", methodName] as const;
const goNames = { read: "crypto/tls.(*Conn).Read", write: "crypto/tls.(*Conn).Write", copy: "runtime.memmove" } as const;
const maxFunctionBytes = 64 * 1024;
/** Go passes arguments in registers since this version. */
const minGoMinor = 17;

/**
 * Null for a file without TLS. `isExecutable`: the file is the program itself; only then a full symbol table is searched, and Go is considered.
 * Throws `unsupported` if the machine code cannot be read.
 */
export function planProbes(image: ElfImage, isExecutable: boolean): ProbePlan | PlanProblem | null {
  if (isExecutable && isGoProgram(image)) {
    const go = planGo(image);
    // A Go program may also be linked with OpenSSL, by cgo.
    if (go !== null) return go;
  }
  const functions = isExecutable ? findElfFunctions(image, opensslNames) : findExportedFunctions(image, opensslNames);
  if (!functions.has("SSL_read") || !functions.has("SSL_write")) return null;
  if (image.machine !== "x64") return { library: "openssl", problem: `processor ${image.machine ?? "unknown"} is not supported yet` };
  return planOpenssl(image, functions);
}

function planOpenssl(image: ElfImage, functions: ReadonlyMap<string, ElfFunction>): ProbePlan {
  const probes: PlannedProbe[] = [];
  const copies = tryCopies(image, functions);
  probes.push(...(copies?.probes ?? []));
  const costs = [
    copies?.costNs ?? planPair(image, probes, siteCookies.read, functions.get("SSL_read"), functions.get("SSL_read_ex")),
    planPair(image, probes, siteCookies.write, functions.get("SSL_write"), functions.get("SSL_write_ex")),
  ];
  const free = functions.get("SSL_free");
  if (free !== undefined) {
    const site = chooseEntrySite(codeOf(image, free), { keep: ["rdi"] });
    if (site !== null) probes.push(probeAt("tls_enter", free, site, siteCookies.free));
  }
  return { library: "openssl", probes, costNs: Math.max(...costs) };
}

function tryCopies(image: ElfImage, functions: ReadonlyMap<string, ElfFunction>): CopyPlan | null {
  try {
    return planCopies(image, functions);
  } catch (error) {
    // A function on the way contains unknown machine code; the exported ones may still be readable.
    if (error instanceof CoralError && error.code === "invalid") return null;
    throw error;
  }
}

/**
 * A call and its variant that returns the number of bytes through a pointer. Where both forward to one inner function, as in libssl since 1.1.1, that
 * one may be cheaper to probe: it takes the arguments of the variant.
 */
function planPair(image: ElfImage, probes: PlannedProbe[], cookie: number, plain?: ElfFunction, variant?: ElfFunction): number {
  const byPointer = cookie | siteCookies.countByPointer;
  const outer = [
    plain === undefined ? null : planCall(codeOf(image, plain), plain, cookie),
    variant === undefined ? null : planCall(codeOf(image, variant), variant, byPointer),
  ].filter((one) => one !== null);
  const inner = plain === undefined || variant === undefined ? null : sharedInner(image, plain, variant);
  const innerCall = inner === null ? null : planCall(codeOf(image, inner), inner, byPointer);
  const outerCost = Math.max(...outer.map(({ costNs }) => costNs));
  const chosen = innerCall !== null && innerCall.costNs < outerCost ? [innerCall] : outer;
  for (const call of chosen) probes.push(...call.probes);
  return Math.max(...chosen.map(({ costNs }) => costNs));
}

/** A function without a symbol has no known size: only its first bytes are read, and only a return probe can be used. */
function sharedInner(image: ElfImage, plain: ElfFunction, variant: ElfFunction): ElfFunction | null {
  const [first, second] = [plain, variant].map((one) => {
    const target = findForwarding(codeOf(image, one), ["rdi", "rsi"]);
    return target === null ? null : one.address + target;
  });
  if (first === null || first === undefined || first !== second || !image.isCode(first)) return null;
  const fileOffset = image.offsetOf(first);
  return fileOffset === null ? null : { name: `${plain.name} inner`, address: first, fileOffset, sizeBytes: 0 };
}

interface PlannedCall {
  probes: PlannedProbe[];
  costNs: number;
}

/**
 * Entry and exit of one function. Instructions before its returns are the first choice; then a return probe, when it costs little; then the return
 * instructions themselves.
 */
function planCall(code: readonly MachineInstruction[], target: ElfFunction, cookie: number): PlannedCall | null {
  const keep = ["rdi", "rsi", "rdx", "rcx"] as const;
  const entry = chooseEntrySite(code, { keep });
  if (entry === null) return null;
  const exits = target.sizeBytes === 0 ? null : chooseExitSites(code, "rax");
  const enter = probeAt("tls_enter", target, entry, cookie);
  if (exits?.kind === "before-return") {
    return {
      probes: [enter, ...exits.sites.map((site) => probeAt("tls_plaintext", target, site, cookie))],
      costNs: entry.costNs + exits.costNs,
    };
  }
  const returning = chooseEntrySite(code, { keep, isForReturn: true });
  if (returning === null) return null;
  // One hit serves both if they are at the same site.
  const returnCost = costsNs.returnProbe + (returning.offsetBytes === entry.offsetBytes ? 0 : returning.costNs);
  if (exits !== null && exits.costNs < returnCost) {
    return {
      probes: [enter, ...exits.sites.map((site) => probeAt("tls_plaintext", target, site, cookie))],
      costNs: entry.costNs + exits.costNs,
    };
  }
  const returnProbe = { ...probeAt("tls_plaintext", target, returning, cookie), isReturn: true };
  if (returning.costNs > costsNs.call) return { probes: [enter, returnProbe], costNs: entry.costNs + returnCost };
  return { probes: [probeAt("tls_enter", target, returning, cookie), returnProbe], costNs: returning.costNs + costsNs.returnProbe };
}

function planGo(image: ElfImage): ProbePlan | PlanProblem | null {
  const program = readGoProgram(image, Object.values(goNames));
  if (program === null) return { library: "go", problem: "its function table has an unknown layout; Go 1.17 to 1.25 are known" };
  const read = program.functions.get(goNames.read);
  const write = program.functions.get(goNames.write);
  if (read === undefined || write === undefined) return null;
  if (image.machine !== "x64") return { library: "go", problem: `processor ${image.machine ?? "unknown"} is not supported yet` };
  const minor = Number(/^go1\.(\d+)/.exec(program.version ?? "")?.[1] ?? Number.NaN);
  if (minor < minGoMinor)
    return { library: "go", problem: `built by ${program.version}: arguments are in registers since go1.${minGoMinor} only` };
  const [readCode, writeCode] = [codeOf(image, read), codeOf(image, write)];
  const [readSite, writeSite] = [readCode, writeCode].map((code) => chooseEntrySite(code, { keep: ["rax", "rbx", "rcx", "r14"] }));
  if (!readSite || !writeSite) return { library: "go", problem: "its machine code could not be read" };
  const probes = [goEntry("tls_plaintext", write, writeSite, siteCookies.write)];
  const copies = copiesIn(readCode, read, program.functions.get(goNames.copy));
  const frames = copies.map(({ offsetBytes }) => findSpillFrame(readCode, offsetBytes, goSpills));
  if (copies.length > 0 && frames.every((bytes) => bytes !== null)) {
    probes.push(...copies.map((site, index) => probeAt("tls_plaintext", read, site, copyCookie(frames[index] ?? 0))));
    return { library: "go", probes, costNs: Math.max(writeSite.costNs, costsNs.call) };
  }
  probes.push(goEntry("tls_enter", read, readSite, siteCookies.read));
  if (copies.length > 0) {
    probes.push(...copies.map((site) => probeAt("tls_plaintext", read, site, copyCookie(0))));
    return { library: "go", probes, costNs: readSite.costNs + costsNs.call };
  }
  // A return probe would break Go, which moves stacks; probe the return instructions instead.
  const exits = chooseExitSites(readCode, "rax");
  if (exits === null) return { library: "go", problem: "the end of reads was not found in its machine code" };
  probes.push(...exits.sites.map((site) => probeAt("tls_plaintext", read, site, siteCookies.go | siteCookies.read)));
  return { library: "go", probes, costNs: readSite.costNs + exits.costNs };
}

/** Where Go keeps receiver and buffer of a method across calls: right above the return address. */
const goSpills = [
  { register: "rax", aboveEntryBytes: 8 },
  { register: "rbx", aboveEntryBytes: 16 },
] as const;

/** With the frame size, arguments are found on the stack; without it (0), they were recorded at entry. */
function copyCookie(frameBytes: number): number {
  return siteCookies.go | siteCookies.read | siteCookies.copy | (frameBytes << siteCookies.frameShift);
}

/** Where Read copies the plaintext into the caller's buffer: a direct call, which is cheap to probe, unlike a return. */
function copiesIn(code: readonly MachineInstruction[], read: ElfFunction, copy: ElfFunction | undefined): ProbeSite[] {
  return copy === undefined ? [] : findCalls(code, copy.address - read.address);
}

const belowOrEqual = 6;

function goEntry(program: PlannedProbe["program"], target: ElfFunction, site: ProbeSite, cookie: number): PlannedProbe {
  const again = site.condition === belowOrEqual ? siteCookies.mayBeginAgain : 0;
  return probeAt(program, target, site, siteCookies.go | cookie | again);
}

function probeAt(program: PlannedProbe["program"], target: ElfFunction, site: ProbeSite, cookie: number): PlannedProbe {
  return { program, isReturn: false, fileOffset: target.fileOffset + site.offsetBytes, cookie };
}

/** Only the start of a function without a size: enough for an entry site. */
const unsizedBytes = 64;

function codeOf(image: ElfImage, { address, sizeBytes }: ElfFunction): MachineInstruction[] {
  if (sizeBytes > 0) return decodeFunction(image.readAddress(address, Math.min(sizeBytes, maxFunctionBytes)));
  return decodeFunction(image.readAddress(address, unsizedBytes));
}
