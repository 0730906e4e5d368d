/** A control group of one program, with CPU and memory limits that faults change: cgroup v1 or v2, depending on the host. */

import { existsSync, mkdirSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Of cgroup v2, or of the v1 hierarchies. */
const mountPoint = "/sys/fs/cgroup";
/** Of the CPU quota: the kernel's default. */
const periodUs = 100_000;

/** Disposing it removes the group; its process must have exited. */
export class ControlGroup implements Disposable {
  readonly #isV2: boolean;
  /** One directory with v2, one for each controller with v1. */
  readonly #directories: string[];

  private constructor(isV2: boolean, directories: string[]) {
    this.#isV2 = isV2;
    this.#directories = directories;
  }

  /** Null with the reason if the host does not allow it. */
  static make(name: string): ControlGroup | string {
    const isV2 = existsSync(join(mountPoint, "cgroup.controllers"));
    const directories = isV2 ? [join(mountPoint, name)] : [join(mountPoint, "cpu", name), join(mountPoint, "memory", name)];
    try {
      if (isV2) writeFileSync(join(mountPoint, "cgroup.subtree_control"), "+cpu +memory");
      for (const directory of directories) mkdirSync(directory);
    } catch (error) {
      return `control groups cannot be made: ${error instanceof Error ? error.message : String(error)}`;
    }
    return new ControlGroup(isV2, directories);
  }

  add(pid: number): void {
    for (const directory of this.#directories) writeFileSync(join(directory, "cgroup.procs"), String(pid));
  }

  /** Null: no limit. */
  limitCpu(cores: number | null): void {
    const [directory = ""] = this.#directories;
    if (this.#isV2) writeFileSync(join(directory, "cpu.max"), `${cores === null ? "max" : Math.round(cores * periodUs)} ${periodUs}`);
    else writeFileSync(join(directory, "cpu.cfs_quota_us"), String(cores === null ? -1 : Math.round(cores * periodUs)));
  }

  limitMemory(bytes: number | null): void {
    const directory = this.#directories.at(-1) ?? "";
    if (this.#isV2) writeFileSync(join(directory, "memory.max"), bytes === null ? "max" : String(bytes));
    else writeFileSync(join(directory, "memory.limit_in_bytes"), String(bytes ?? -1));
  }

  [Symbol.dispose](): void {
    for (const directory of this.#directories) {
      try {
        rmdirSync(directory);
      } catch {
        // Its last process has not been reaped yet: an empty group stays behind.
      }
    }
  }
}
