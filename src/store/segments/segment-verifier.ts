import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import type { SegmentCatalog } from "./segment-catalog.ts";
import type { SegmentEntry } from "./segment-manifest.ts";

/**
 * Finds the file behind a failed query: one damaged page fails every question that reads it, and DuckDB does not always say where. Nothing is read
 * before something was suspected, and then a bounded part at a time.
 */
export class SegmentVerifier {
  readonly #catalog: SegmentCatalog;
  #left: SegmentEntry[] = [];

  constructor(catalog: SegmentCatalog) {
    this.#catalog = catalog;
  }

  /** A query failed although its statement was right. All files are looked at once, unless that is under way. */
  suspect(): void {
    if (this.#left.length === 0) this.#left = this.#catalog.all().filter(({ state, rows }) => state === "stored" && rows > 0);
  }

  /** Entries whose file is not what was stored, among the next ones up to so many bytes. */
  async verifySome(maxBytes: number): Promise<{ entry: SegmentEntry; reason: string }[]> {
    const damaged: { entry: SegmentEntry; reason: string }[] = [];
    let leftBytes = maxBytes;
    while (leftBytes > 0) {
      const entry = this.#left.pop();
      if (entry === undefined) break;
      if (!this.#catalog.of(entry.signal).includes(entry)) continue;
      leftBytes -= entry.sizeBytes;
      const reason = await this.#damageOf(entry);
      if (reason !== undefined) damaged.push({ entry, reason });
    }
    return damaged;
  }

  async #damageOf(entry: SegmentEntry): Promise<string | undefined> {
    const hash = createHash("sha256");
    try {
      for await (const part of createReadStream(this.#catalog.fileOf(entry)) as AsyncIterable<Buffer>) hash.update(part);
    } catch (error) {
      return `it cannot be read (${error instanceof Error ? error.message : String(error)})`;
    }
    return hash.digest("hex") === entry.sha256 ? undefined : "its bytes have changed since it was stored";
  }
}
