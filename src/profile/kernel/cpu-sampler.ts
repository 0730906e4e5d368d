/** Loads probes/profile/profile.bpf.c and samples every processor with it. */

import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { CoralError } from "../../base/errors.ts";
import { type BpfLink, type BpfMap, type BpfObject, explainBpfFailure, loadBpfObject, type RecordVisitor } from "../../bpf/index.ts";
import { ownPidNamespace } from "../../host/index.ts";
import { encodeRuntime, type RuntimeTable } from "./runtime-table.ts";

export interface CpuSampler extends AsyncDisposable {
  readonly runtimes: RuntimeTable;
  /** Changes the rate; 0 stops sampling until the next call. */
  setRate(hz: number): Promise<void>;
  /** Calls back soon after the ring is one eighth full. */
  onFilling(listener: () => void): void;
  /** Runs for at most about this long: on a busy host samples may arrive faster than they are walked. */
  drain(visit: RecordVisitor, maxMs: number): void;
  /** Samples dropped because the ring was full, since the last call. */
  takeDropped(): number;
  /** CPU time of the program since it was loaded, as far as the kernel measures it; null if the kernel refuses. */
  runNs(): bigint;
  /** Turns on the kernel's run-time statistics until disposed; null if the kernel refuses. */
  measure(): Disposable | null;
}

/** In the bundle all files are in dist/; from sources (tests) dist/ is three levels up. */
function builtObject(): string | undefined {
  return ["./probes/profile.bpf.o", "../../../dist/probes/profile.bpf.o"]
    .map((path) => fileURLToPath(new URL(path, import.meta.url)))
    .find((path) => existsSync(path));
}

/** 10 s of samples at 19 Hz on two busy processors. */
const ringBytesPerPair = 2 * 1024 * 1024;
const maxRingBytes = 32 * 1024 * 1024;
/** `COUNT_DROPPED` of the map `counts`. */
const droppedKey = 1;

/** Throws if nothing can be sampled: `unsupported` if that is permanent, `unavailable` if it may change. */
export async function openCpuSampler(processors: number): Promise<CpuSampler> {
  const path = builtObject();
  if (path === undefined) {
    const message = 'the BPF objects are not built; install clang (apt-get install clang), then run "npm run setup"';
    throw new CoralError({ code: "unsupported", message });
  }
  const namespace = ownPidNamespace();
  try {
    const object = await loadBpfObject({
      path,
      constants: { pid_namespace_inode: namespace === null || namespace.isFirst ? 0 : namespace.inode },
      maxEntries: { samples: Math.min(maxRingBytes, ringBytesPerPair * 2 ** Math.ceil(Math.log2(Math.max(1, processors / 2)))) },
    });
    return new Sampler(object);
  } catch (error) {
    throw explained(error);
  }
}

function explained(error: unknown): CoralError {
  const { text, isLasting } = explainBpfFailure(error, "perf_event");
  return new CoralError({ code: isLasting ? "unsupported" : "unavailable", message: text, cause: error });
}

class Sampler implements CpuSampler {
  readonly runtimes: RuntimeTable;
  readonly #object: BpfObject;
  #link: BpfLink | undefined;
  #hz = 0;
  #dropped = 0;

  constructor(object: BpfObject) {
    this.#object = object;
    const map = object.map("runtimes");
    this.runtimes = {
      add: (pid, startedNs, entry) => addRuntime(map, pid, encodeRuntime(startedNs, entry)),
      remove: (pid) => void map.delete(keyOf(pid)),
    };
  }

  async setRate(hz: number): Promise<void> {
    if (hz === this.#hz) return;
    this.#hz = hz;
    await this.#link?.[Symbol.asyncDispose]();
    this.#link = undefined;
    if (hz === 0) return;
    try {
      this.#link = this.#object.attachCpuClock("take_sample", hz).link;
    } catch (error) {
      throw explained(error);
    }
  }

  onFilling(listener: () => void): void {
    this.#object.watchRing("samples", listener);
  }

  drain(visit: RecordVisitor, maxMs: number): void {
    this.#object.ring("samples").drain(visit, { maxMs });
  }

  takeDropped(): number {
    const counts = this.#object.map("counts");
    const key = Buffer.alloc(4);
    key.writeUInt32LE(droppedKey);
    const values = Buffer.alloc(counts.valueBytes);
    counts.lookup(key, values);
    let total = 0;
    for (let at = 0; at + 8 <= values.length; at += 8) total += Number(values.readBigUInt64LE(at));
    const fresh = total - this.#dropped;
    this.#dropped = total;
    return fresh;
  }

  runNs(): bigint {
    return this.#object.stats().reduce((sum, program) => sum + program.runNs, 0n);
  }

  measure(): Disposable | null {
    return this.#object.enableStats();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#object[Symbol.asyncDispose]();
  }
}

function keyOf(pid: number): Buffer {
  const key = Buffer.alloc(4);
  key.writeUInt32LE(pid);
  return key;
}

/** A full table costs names, not samples. */
function addRuntime(map: BpfMap, pid: number, value: Buffer): boolean {
  try {
    map.update(keyOf(pid), value);
    return true;
  } catch (error) {
    if (CoralError.from(error).code === "exhausted") return false;
    throw error;
  }
}
