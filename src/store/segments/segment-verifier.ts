import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import type { SegmentCatalog } from "./segment-catalog.ts";
import type { SegmentEntry } from "./segment-manifest.ts";

/**
 * Finds the file behind a failed query. One damaged page fails every query that reads it, and DuckDB does not always name the file. Reads
 * nothing until damage is suspected, and then a bounded amount at a time.
 */
export class SegmentVerifier {
  readonly #catalog: SegmentCatalog;
  #left: SegmentEntry[] = [];

  constructor(catalog: SegmentCatalog) {
    this.#catalog = catalog;
  }

  /** Call when a query failed although its statement was correct. Queues all files for verification, unless one is already running. */
  suspect(): void {
    if (this.#left.length === 0) this.#left = this.#catalog.all().filter(({ state, rows }) => state === "stored" && rows > 0);
  }

  /** Verifies the next files, up to so many bytes, and returns the damaged ones. */
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
    return hash.digest("hex") === entry.sha256 ? undefined : "its hash differs from the manifest";
  }
}
