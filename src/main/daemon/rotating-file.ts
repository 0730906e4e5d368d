/** An append-only file that renames itself when full: `x.log` → `x.log.1` → … Writes are synchronous, so the last lines before a crash survive. */

import { closeSync, constants, fstatSync, renameSync, rmSync, writeSync } from "node:fs";
import { type FileOwner, openOwned } from "../../base/open-owned.ts";

export interface RotatingFileOptions {
  path: string;
  /** Default 10 MiB. */
  maxBytes?: number;
  /** Old files kept besides the current one. Default 3. */
  keep?: number;
  /** Owner of the file when root writes it in another user's directory. */
  owner?: FileOwner | undefined;
}

export class RotatingFile implements Disposable {
  readonly #options: Required<RotatingFileOptions>;
  #fd: number | undefined;
  #sizeBytes = 0;
  /** Lines that could not be written (disk full, directory gone). */
  lost = 0;

  constructor(options: RotatingFileOptions) {
    this.#options = { maxBytes: 10 * 1024 * 1024, keep: 3, owner: undefined, ...options };
    this.#open();
  }

  write(text: string): void {
    try {
      if (this.#sizeBytes > 0 && this.#sizeBytes + Buffer.byteLength(text) > this.#options.maxBytes) this.#rotate();
      if (this.#fd === undefined) this.#open();
      if (this.#fd !== undefined) this.#sizeBytes += writeSync(this.#fd, text);
    } catch {
      // A lost log line must not stop the daemon: count it and continue.
      this.lost++;
    }
  }

  #open(): void {
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_APPEND;
    this.#fd = openOwned(this.#options.path, flags, 0o600, this.#options.owner);
    this.#sizeBytes = fstatSync(this.#fd).size;
  }

  #rotate(): void {
    this[Symbol.dispose]();
    const { path, keep } = this.#options;
    rmSync(`${path}.${keep}`, { force: true });
    for (let index = keep - 1; index >= 0; index--) {
      try {
        renameSync(index === 0 ? path : `${path}.${index}`, `${path}.${index + 1}`);
      } catch (error) {
        // A young daemon has fewer old files than `keep`.
        if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
      }
    }
    this.#open();
  }

  [Symbol.dispose](): void {
    if (this.#fd === undefined) return;
    closeSync(this.#fd);
    this.#fd = undefined;
  }
}
