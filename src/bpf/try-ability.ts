/** Loads and attaches one program of ability.bpf.o, and detaches it at once. Runs in its own process: see `ability-child.ts`. */

import { closeSync, openSync, readSync } from "node:fs";
import type { AbilityName, AbilityOutcome } from "./kernel-ability.ts";
import type { Libbpf, Pointer } from "./libbpf.ts";
import { cpuClockAttributes } from "./perf-events.ts";

const sampleHz = 19;
const BPF_LINK_CREATE = 28;
const BPF_TRACE_UPROBE_MULTI = 48;

/** Leaves nothing attached, whatever happens. */
export function tryAbility(libbpf: Libbpf, objectPath: string, name: AbilityName): AbilityOutcome {
  libbpf.takeLog();
  const object = libbpf.openFile(objectPath);
  if (object === null) return { stage: "open", errno: libbpf.errno(), log: libbpf.takeLog() };
  try {
    const program = selectProgram(libbpf, object, `ability_${name}`);
    if (name === "uprobe_multi") libbpf.setExpectedAttachType(program, BPF_TRACE_UPROBE_MULTI);
    if (name !== "ring_buffer") skipMaps(libbpf, object);
    const loaded = libbpf.load(object);
    if (loaded !== 0) return { stage: "load", errno: Math.abs(loaded), log: libbpf.takeLog() };
    const errno = attachAndDetach(libbpf, program, name);
    return errno === 0 ? { stage: "attached" } : { stage: "attach", errno, log: libbpf.takeLog() };
  } finally {
    libbpf.closeObject(object);
  }
}

/** No other program is loaded, so that one refusal does not affect the rest. */
function selectProgram(libbpf: Libbpf, object: Pointer, wanted: string): Pointer {
  let found: Pointer = null;
  for (let program = libbpf.nextProgram(object, null); program !== null; program = libbpf.nextProgram(object, program)) {
    const isWanted = libbpf.programName(program) === wanted;
    libbpf.setAutoload(program, isWanted);
    if (isWanted) found = program;
  }
  if (found === null) throw new Error(`Cannot try "${wanted}": the object holds no such program; run "npm run setup"`);
  return found;
}

function skipMaps(libbpf: Libbpf, object: Pointer): void {
  for (let map = libbpf.nextMap(object, null); map !== null; map = libbpf.nextMap(object, map)) libbpf.setMapAutocreate(map, false);
}

/** 0, or the errno of the refusal. */
function attachAndDetach(libbpf: Libbpf, program: Pointer, name: AbilityName): number {
  if (name === "perf_event") return tryPerfEvent(libbpf, program);
  if (name === "uprobe_multi") return tryUprobeMulti(libbpf, program);
  // Offset and path of this executable's first instruction, which no running process executes again.
  const link =
    name === "uprobe"
      ? libbpf.attachUprobe(program, false, process.pid, process.execPath, entryOffset(process.execPath))
      : libbpf.attach(program);
  if (link === null) return libbpf.errno();
  libbpf.destroyLink(link);
  return 0;
}

function tryPerfEvent(libbpf: Libbpf, program: Pointer): number {
  // All processes on one CPU, as the profiler does.
  const fd = libbpf.perfEventOpen(cpuClockAttributes(sampleHz), -1, 0);
  if (fd < 0) return libbpf.errno();
  const link = libbpf.attachPerfEvent(program, fd);
  const errno = link === null ? libbpf.errno() : 0;
  // A link owns the descriptor; without one, close it here.
  if (link === null) libbpf.closeFd(fd);
  else libbpf.destroyLink(link);
  return errno;
}

/** libbpf before 1.3 has no call for it, so the link is created by bpf(2): struct link_create, with the uprobe_multi part at byte 16. */
function tryUprobeMulti(libbpf: Libbpf, program: Pointer): number {
  const path = Buffer.from(`${process.execPath}\0`);
  const offsets = Buffer.alloc(8);
  offsets.writeBigUInt64LE(entryOffset(process.execPath));
  const attributes = Buffer.alloc(64);
  attributes.writeUInt32LE(libbpf.programFd(program), 0);
  attributes.writeUInt32LE(BPF_TRACE_UPROBE_MULTI, 8);
  attributes.writeBigUInt64LE(libbpf.addressOf(path), 16);
  attributes.writeBigUInt64LE(libbpf.addressOf(offsets), 24);
  attributes.writeUInt32LE(1, 48);
  attributes.writeUInt32LE(process.pid, 56);
  const fd = libbpf.bpf(BPF_LINK_CREATE, attributes);
  if (fd < 0) return libbpf.errno();
  libbpf.closeFd(fd);
  return 0;
}

/** File offset of an ELF64 executable's first instruction: its entry address minus the load address of the segment that contains it. */
export function entryOffset(path: string): bigint {
  const fd = openSync(path, "r");
  try {
    const header = Buffer.alloc(64);
    readSync(fd, header, 0, header.length, 0);
    if (header.readUInt32BE(0) !== 0x7f454c46 || header[4] !== 2) throw new Error(`Cannot read "${path}": not a 64-bit ELF file`);
    const entry = header.readBigUInt64LE(24);
    const size = header.readUInt16LE(54);
    const segments = Buffer.alloc(size * header.readUInt16LE(56));
    readSync(fd, segments, 0, segments.length, header.readBigUInt64LE(32));
    for (let at = 0; at + size <= segments.length; at += size) {
      const isLoad = segments.readUInt32LE(at) === 1;
      const [offset, address, length] = [8, 16, 32].map((field) => segments.readBigUInt64LE(at + field)) as [bigint, bigint, bigint];
      if (isLoad && entry >= address && entry < address + length) return entry - address + offset;
    }
    throw new Error(`Cannot read "${path}": no segment holds its entry point`);
  } finally {
    closeSync(fd);
  }
}
