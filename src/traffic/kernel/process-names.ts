import { decodeProcessName, readProcessName } from "../../host/index.ts";

/**
 * Names of processes, read while their traffic is seen, for those that exit before the agent scans them. A name is kept for its window and the
 * next one, and for as long as every window uses it: repeated requests of one kind do not carry the name.
 */
export class ProcessNames {
  readonly #read: (pid: number) => string | null;
  readonly #maxNames: number;
  #now = new Map<number, string | null>();
  #before = new Map<number, string | null>();

  constructor(read: (pid: number) => string | null = readProcessName, maxNames = 4_096) {
    this.#read = read;
    this.#maxNames = maxNames;
  }

  /** Called with every record, which holds the name at `nameAt` or zeros. Decodes the name, or reads it from the process, once per window and process. */
  observe(pid: number, record: Buffer, nameAt: number): void {
    const known = this.#now.get(pid);
    if (known !== undefined && (known !== null || record[nameAt] === 0)) return;
    if (known === undefined && this.#now.size >= this.#maxNames) return;
    this.#now.set(pid, decodeProcessName(record, nameAt) ?? this.#read(pid) ?? this.#before.get(pid) ?? null);
  }

  nameOf(pid: number): string | undefined {
    const name = this.#now.get(pid) ?? this.#before.get(pid) ?? undefined;
    if (name !== undefined && this.#now.size < this.#maxNames) this.#now.set(pid, name);
    return name;
  }

  /** Drops names that neither this window nor the previous one used. */
  endWindow(): void {
    this.#before = this.#now;
    this.#now = new Map();
  }
}
