/** Finds out what the kernel allows, in a child process, so that a crash or hang in foreign code cannot affect the caller. */

import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import {
  type AbilityFacts,
  type AbilityName,
  type AbilityOutcome,
  abilityNames,
  explainOutcome,
  type KernelAbility,
} from "./kernel-ability.ts";

export interface ProbeAbilitiesOptions {
  /** Timeout of one child; default 20 s. Detaching a uprobe alone can take 0.1 s. */
  timeoutMs?: number;
  signal?: AbortSignal;
  /** For tests: files other than the bundle's. */
  childPath?: string;
  objectPath?: string;
}

interface ChildFacts extends AbilityFacts {
  libbpfVersion?: string;
}

interface ChildReport {
  facts?: ChildFacts;
  outcomes: Map<AbilityName, AbilityOutcome>;
}

/** In the bundle all files are in dist/; from sources (tests) dist/ is two levels up. */
function builtFile(name: string): string | undefined {
  return [`./${name}`, `../../dist/${name}`].map((path) => fileURLToPath(new URL(path, import.meta.url))).find((path) => existsSync(path));
}

/** What Coral needs to use BPF: the objects, the library, the kernel's BTF, and each ability. */
export interface BpfReport {
  hasObjects: boolean;
  /** `v1.1`; absent if the library does not load. */
  libbpfVersion?: string;
  /** Whether the kernel has BTF; false also if unknown. */
  hasBtf: boolean;
  /** In the order of `abilityNames`. */
  abilities: KernelAbility[];
}

/** Tries each ability by load and attach. Takes about half a second. Never throws for a refusal of the kernel. */
export async function probeBpf(options: ProbeAbilitiesOptions = {}): Promise<BpfReport> {
  const childPath = options.childPath ?? builtFile("ability-child.js");
  const objectPath = options.objectPath ?? builtFile("probes/ability.bpf.o");
  const outcomes = new Map<AbilityName, AbilityOutcome>();
  let facts: ChildFacts = { capabilities: 0n, hasBtf: false };
  if (childPath === undefined || objectPath === undefined) {
    const abilities = abilityNames.map((name) => explainOutcome(name, { stage: "object-missing" }, facts));
    return { hasObjects: false, hasBtf: false, abilities };
  }
  for (;;) {
    const remaining = abilityNames.filter((name) => !outcomes.has(name));
    if (remaining.length === 0) break;
    const report = await runChild(childPath, [objectPath, ...remaining], options);
    facts = report.facts ?? facts;
    // Each round settles at least one ability, so this terminates.
    for (const [name, outcome] of report.outcomes) outcomes.set(name, outcome);
  }
  return {
    hasObjects: true,
    hasBtf: facts.hasBtf,
    ...(facts.libbpfVersion === undefined ? {} : { libbpfVersion: facts.libbpfVersion }),
    abilities: abilityNames.map((name) => explainOutcome(name, outcomes.get(name) ?? { stage: "not-run", message: "not tried" }, facts)),
  };
}

/** The abilities of `probeBpf()` alone. */
export async function probeKernelAbilities(options: ProbeAbilitiesOptions = {}): Promise<KernelAbility[]> {
  return (await probeBpf(options)).abilities;
}

async function runChild(childPath: string, args: readonly string[], options: ProbeAbilitiesOptions): Promise<ChildReport> {
  options.signal?.throwIfAborted();
  const timeoutMs = options.timeoutMs ?? 20_000;
  const child = spawn(process.execPath, [childPath, ...args], { stdio: ["ignore", "pipe", "ignore"] });
  const timer = setTimeout(() => child.kill("SIGKILL"), timeoutMs);
  const abort = (): boolean => child.kill("SIGKILL");
  options.signal?.addEventListener("abort", abort, { once: true });
  const ended = new Promise<string>((resolve) => {
    child.on("error", (error) => resolve(error.message));
    child.on("close", (code, signal) => resolve(signal ?? `exit code ${code}`));
  });
  const reader = new ReportReader(args.slice(1) as AbilityName[]);
  try {
    for await (const line of createInterface({ input: child.stdout })) reader.take(line);
    const end = await ended;
    options.signal?.throwIfAborted();
    return reader.finish(end === "SIGKILL" ? `did not finish within ${timeoutMs} ms` : `ended the child process (${end})`);
  } finally {
    child.kill("SIGKILL");
    clearTimeout(timer);
    options.signal?.removeEventListener("abort", abort);
  }
}

/** Collects a child's lines. A crash is attributed to the ability that was being tried. */
class ReportReader {
  readonly #wanted: readonly AbilityName[];
  readonly #report: ChildReport = { outcomes: new Map() };
  #begun: AbilityName | undefined;

  constructor(wanted: readonly AbilityName[]) {
    this.#wanted = wanted;
  }

  take(line: string): void {
    const message = JSON.parse(line) as {
      libraryMissing?: string;
      capabilities?: string;
      hasBtf?: boolean;
      libbpf?: string;
      begin?: AbilityName;
      end?: AbilityName;
      outcome?: AbilityOutcome;
    };
    const { outcomes } = this.#report;
    if (message.libraryMissing !== undefined) {
      for (const name of this.#wanted) outcomes.set(name, { stage: "library-missing", message: message.libraryMissing });
    }
    if (message.capabilities !== undefined) {
      const { hasBtf = false, libbpf } = message;
      this.#report.facts = {
        capabilities: BigInt(message.capabilities),
        hasBtf,
        ...(libbpf === undefined ? {} : { libbpfVersion: libbpf }),
      };
    }
    if (message.begin !== undefined) this.#begun = message.begin;
    if (message.end !== undefined && message.outcome !== undefined) {
      outcomes.set(message.end, message.outcome);
      this.#begun = undefined;
    }
  }

  finish(why: string): ChildReport {
    const { outcomes } = this.#report;
    if (this.#begun !== undefined) {
      outcomes.set(this.#begun, { stage: "not-run", message: `the attempt ${why}` });
    } else if (outcomes.size < this.#wanted.length) {
      // The child died before the first attempt, or between two: the next round would end the same way.
      for (const name of this.#wanted) if (!outcomes.has(name)) outcomes.set(name, { stage: "not-run", message: `the check ${why}` });
    }
    return this.#report;
  }
}
