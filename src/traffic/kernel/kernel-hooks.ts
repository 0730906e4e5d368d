/** Loads probes/requests/requests.bpf.c and attaches its hooks: cheap socket tracepoints where the kernel has them, else system calls. */

import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { CoralError } from "../../base/errors.ts";
import { type BpfObject, explainBpfFailure, loadBpfObject, uprobeSessionSection } from "../../bpf/index.ts";
import type { PidNamespace } from "../../host/index.ts";
import type { TrafficSettings } from "../core/messages.ts";
import { readFindings } from "./kernel-controls.ts";
import { scopeConstants } from "./scope-constants.ts";

export interface KernelHooks extends AsyncDisposable {
  readonly kind: "sockets" | "syscalls";
  readonly object: BpfObject;
  /** Why TLS plaintext cannot be read on this host; null when the programs for it are loaded. */
  readonly plaintextProblem: string | null;
  /** Attaches the hooks; the last step of the budget ladder detaches them. Both are idempotent. */
  attach(): void;
  /** Attaches hooks that only some traffic needs, once there was such traffic. Call it every second. */
  attachWanted(): void;
  detach(): Promise<void>;
}

export interface OpenHooksOptions {
  settings: TrafficSettings;
  ownPids: readonly number[];
  /** For tests: only this kind. */
  kinds?: readonly KernelHooks["kind"][];
  objectPath?: string;
  /** For tests: a pid namespace other than that of this process. */
  namespace?: PidNamespace;
}

type HookSet = "sockets" | "long-sends" | "hidden-reads" | "syscalls" | "both" | "plaintext" | "on-demand";

/** Without them, times are missing or less exact; counts are the same. */
const optionalSections: ReadonlySet<string> = new Set(["tp_btf/sk_data_ready", "tp_btf/tcp_sendmsg_locked", "tp_btf/tcp_rcv_space_adjust"]);

/** Attached once the programs ask for them. */
const wantedSets: ReadonlySet<HookSet> = new Set(["long-sends", "hidden-reads"]);

/** The set of hooks that a program belongs to, by its ELF section, which names the attach point. */
export function hookSetOf(section: string): HookSet {
  if (section.startsWith("uprobe") || section.startsWith("uretprobe")) return "plaintext";
  if (section === "syscall") return "on-demand";
  if (section.endsWith("/tcp_sendmsg_locked")) return "long-sends";
  if (section.endsWith("/tcp_rcv_space_adjust")) return "hidden-reads";
  if (/\/sock_(?:recv|send)_length$/.test(section)) return "sockets";
  return /\/(?:syscalls\/)?sys_(?:enter|exit)/.test(section) ? "syscalls" : "both";
}

/** In the bundle every file is in dist/; from sources (tests) dist/ is three levels up. */
function builtObject(): string | undefined {
  return ["./probes/requests.bpf.o", "../../../dist/probes/requests.bpf.o"]
    .map((path) => fileURLToPath(new URL(path, import.meta.url)))
    .find((path) => existsSync(path));
}

/** Throws when nothing can be attached: `unsupported` if that is permanent, `unavailable` if it may change. */
export async function openKernelHooks(options: OpenHooksOptions): Promise<KernelHooks> {
  const path = options.objectPath ?? builtObject();
  if (path === undefined) {
    const message = 'the BPF objects are not built; install clang (apt-get install clang), then run "npm run setup"';
    throw new CoralError({ code: "unsupported", message });
  }
  const failures: unknown[] = [];
  for (const kind of options.kinds ?? (["sockets", "syscalls"] as const)) {
    try {
      return await openHooks(path, kind, options);
    } catch (error) {
      failures.push(error);
    }
  }
  // Both failures are reported: the first kind should have worked, and the fallback explains an old kernel.
  const explained = failures.map((failure, index) => explainBpfFailure(failure, index === 0 ? "raw_tp" : "tracepoint"));
  throw new CoralError({
    code: explained.every(({ isLasting }) => isLasting) ? "unsupported" : "unavailable",
    message: [...new Set(explained.map(({ text }) => text))].join("; and "),
    cause: failures[0],
  });
}

async function openHooks(path: string, kind: KernelHooks["kind"], options: OpenHooksOptions): Promise<KernelHooks> {
  const { object, sections, plaintextProblem } = await load(path, kind, options);
  try {
    if (![...sections.values()].includes(kind)) {
      throw new CoralError({ code: "unsupported", message: `Cannot read traffic at ${kind}: the object has no programs for it` });
    }
    const hooks = new AttachedHooks({ kind, object, sections, plaintextProblem });
    ignoreProcesses(object, options.ownPids);
    hooks.attach();
    return hooks;
  } catch (error) {
    await object[Symbol.asyncDispose]();
    throw error;
  }
}

/** Excludes this process and `pids` from observation, and no others: the pid of an earlier one may have been reused. */
export function ignoreProcesses(object: Pick<BpfObject, "map">, pids: readonly number[]): void {
  const ignored = object.map("own_processes");
  const wanted = new Set([process.pid, ...pids]);
  const gone: Buffer[] = [];
  ignored.readAll((keys, at) => {
    if (!wanted.has(keys.readUInt32LE(at))) gone.push(Buffer.from(keys.subarray(at, at + 4)));
  });
  for (const key of gone) ignored.delete(key);
  for (const pid of wanted) {
    const key = Buffer.alloc(4);
    key.writeUInt32LE(pid);
    ignored.update(key, Buffer.alloc(ignored.valueBytes, 1));
  }
}

/** Upper limits of `connection_slots` and `request_slots`. Arrays are allocated at once: 6 MiB and 3.4 MiB. */
export const maxConnectionSlots = 16_384;
const maxRequestSlots = 1_024;

/** How many entries of a table are array slots, which are found without a helper call: a quarter, as a power of two. The rest is in a hash table. */
export function slotsOf(entries: number, maxSlots: number): number {
  return Math.min(maxSlots, 2 ** Math.floor(Math.log2(Math.max(8, entries) / 4)));
}

interface Loaded {
  object: BpfObject;
  sections: Map<string, HookSet>;
  plaintextProblem: string | null;
}

/**
 * How calls of TLS libraries are probed: entry and return by one program (Linux 6.13), by two (6.6), or not at all. A kernel rejects what it does not
 * know; the rest is then loaded without it.
 */
type Plaintext = "sessions" | "probes" | "none";

async function load(path: string, kind: KernelHooks["kind"], { settings, namespace }: OpenHooksOptions): Promise<Loaded> {
  const sections = new Map<string, HookSet>();
  const slots = slotsOf(settings.maxConnections, maxConnectionSlots);
  const kindSlots = slotsOf(settings.maxRequestKinds, maxRequestSlots);
  const attempt = (plaintext: Plaintext): Promise<BpfObject> =>
    loadBpfObject({
      path,
      isWanted: (name, section) => {
        const set = hookSetOf(section);
        sections.set(name, set);
        if (set === "plaintext") return plaintext === "sessions" || (plaintext === "probes" && section !== uprobeSessionSection);
        return set === kind || set === "both" || set === "on-demand" || (wantedSets.has(set) && kind === "sockets");
      },
      isOptional: (_name, section) => optionalSections.has(section),
      maxEntries: {
        request_slots: kindSlots,
        requests: Math.max(1, settings.maxRequestKinds - kindSlots),
        connection_slots: slots,
        connections: Math.max(1, settings.maxConnections - slots),
        http2_connections: settings.maxConnections,
        events: settings.ringBytes,
      },
      constants: {
        ...scopeConstants(namespace),
        connection_slot_mask: slots - 1,
        request_slot_mask: kindSlots - 1,
        has_socket_hooks: kind === "sockets" ? 1 : 0,
      },
    });
  if (!settings.tls.isEnabled) return { object: await attempt("none"), sections, plaintextProblem: "disabled" };
  try {
    return { object: await attempt("sessions"), sections, plaintextProblem: null };
  } catch {
    // Not supported before Linux 6.13. Any other problem fails the next attempt, too, and is reported there.
  }
  try {
    return { object: await attempt("probes"), sections, plaintextProblem: null };
  } catch (error) {
    const object = await attempt("none");
    return { object, sections, plaintextProblem: explainBpfFailure(error, "uprobe_multi").text };
  }
}

class AttachedHooks implements KernelHooks {
  readonly kind: KernelHooks["kind"];
  readonly object: BpfObject;
  readonly plaintextProblem: string | null;
  readonly #sections: ReadonlyMap<string, HookSet>;
  #links: AsyncDisposable[] = [];
  readonly #attachedSets = new Set<HookSet>();

  constructor({ kind, object, sections, plaintextProblem }: Loaded & { kind: KernelHooks["kind"] }) {
    this.kind = kind;
    this.object = object;
    this.plaintextProblem = plaintextProblem;
    this.#sections = sections;
  }

  attach(): void {
    if (this.#links.length > 0) return;
    this.#attachSet(this.kind);
    this.#attachSet("both");
    this.attachWanted();
    // Until the last hook was attached, some requests were seen without their responses. The next request would look pipelined, and its connection
    // would be treated so for as long as it lasts.
    this.object.map("connections").takeAll(() => {});
    this.object.run("forget_connections");
  }

  attachWanted(): void {
    if (this.#attachedSets.size === wantedSets.size || this.#links.length === 0) return;
    const { longSends, hiddenReads } = readFindings(this.object.map("controls"));
    if (longSends) this.#attachOnce("long-sends");
    if (hiddenReads) this.#attachOnce("hidden-reads");
  }

  #attachOnce(set: HookSet): void {
    if (this.#attachedSets.has(set)) return;
    this.#attachedSets.add(set);
    this.#attachSet(set);
  }

  #attachSet(set: HookSet): void {
    for (const program of this.object.programs) {
      if (this.#sections.get(program) === set) this.#links.push(this.object.attach(program));
    }
  }

  async detach(): Promise<void> {
    const links = this.#links;
    this.#links = [];
    this.#attachedSets.clear();
    await Promise.all(links.map((link) => link[Symbol.asyncDispose]()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.object[Symbol.asyncDispose]();
  }
}
