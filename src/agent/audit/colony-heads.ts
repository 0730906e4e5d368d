/**
 * The last entries of the colony's audit chain that this agent has received with pulls. A colony whose store was removed or restored from an older
 * copy cannot produce them any more. They are kept in a file: an entry in this agent's chain for each of them would double the chain.
 * `AuditLog.anchor` records some of them in the chain.
 */

import { readFile } from "node:fs/promises";
import type { Logger } from "../../base/log.ts";
import { writePrivateFile } from "../../config/index.ts";
import type { ChainLink } from "../../store/signals/index.ts";

/** One entry of a colony's chain: its position and hash. */
export interface ColonyHead extends ChainLink {
  /** Empty in entries of agents that did not record it yet. */
  colonyId: string;
  chainId: string;
}

/** Heads of all colonies together; the oldest is dropped. */
const maxHeads = 64;

/** Kept in a small JSON file, which is rewritten for each new head. */
export class ColonyHeads {
  readonly #file: string;
  readonly #log: Logger;
  /** Newest last. */
  readonly #heads: ColonyHead[];
  #writing: Promise<void> | undefined;

  private constructor(file: string, heads: ColonyHead[], log: Logger) {
    this.#file = file;
    this.#heads = heads;
    this.#log = log;
  }

  static async open(file: string, log: Logger): Promise<ColonyHeads> {
    return new ColonyHeads(file, await readHeads(file), log);
  }

  /** Newest first. */
  list(): ColonyHead[] {
    return this.#heads.toReversed();
  }

  /** Returns the previous head of this colony if the new one does not follow it: the colony lost entries, or started another chain. */
  receive(head: ColonyHead): ColonyHead | undefined {
    const last = this.#heads.findLast(({ colonyId }) => colonyId === head.colonyId);
    if (last?.chainId === head.chainId && last.entry === head.entry && last.hash === head.hash) return undefined;
    this.#heads.push(head);
    this.#heads.splice(0, this.#heads.length - maxHeads);
    this.#writing ??= this.#write();
    if (!last) return undefined;
    return last.chainId === head.chainId && last.entry < head.entry ? undefined : last;
  }

  async settled(): Promise<void> {
    await this.#writing;
  }

  /** One write at a time; a file that lags detects less, but never reports a false problem. Never rejects. */
  async #write(): Promise<void> {
    for (let written = ""; ; ) {
      const text = `${JSON.stringify(this.#heads)}\n`;
      if (text === written) break;
      await writePrivateFile(this.#file, text).catch((error: unknown) =>
        this.#log.warn(`cannot write "${this.#file}"; retrying when the colony's audit grows`, { error }),
      );
      written = text;
    }
    this.#writing = undefined;
  }
}

async function readHeads(file: string): Promise<ColonyHead[]> {
  try {
    const heads = JSON.parse(await readFile(file, "utf8")) as unknown;
    return Array.isArray(heads) ? heads.filter(isHead).slice(-maxHeads) : [];
  } catch {
    // Absent before the first pull. If it was deleted, the anchors in the chain remain.
    return [];
  }
}

function isHead(value: unknown): value is ColonyHead {
  const head = value as Partial<ColonyHead> | null;
  return (
    typeof head?.colonyId === "string" &&
    typeof head.chainId === "string" &&
    typeof head.entry === "number" &&
    typeof head.hash === "string"
  );
}
