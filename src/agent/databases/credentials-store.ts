/** Credentials of databases, by port. Stored in one file of the agent with mode 0600, and nowhere else. */

import { readFile, rename } from "node:fs/promises";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { checkCredentials, type FileOwner, writePrivateFile } from "../../config/index.ts";
import type { DatabaseCredentials } from "../../model/database-facts.ts";

export interface CredentialsStoreOptions {
  file: string;
  owner: FileOwner | undefined;
  log: Logger;
}

/** Version of the file's JSON; another one counts as damaged. */
const fileVersion = 1;

/** Reads from memory; a change takes effect once the file is written. */
export class CredentialsStore {
  readonly #options: CredentialsStoreOptions;
  #byPort: ReadonlyMap<number, DatabaseCredentials>;
  #lastChange: Promise<unknown> = Promise.resolve();

  private constructor(options: CredentialsStoreOptions, byPort: ReadonlyMap<number, DatabaseCredentials>) {
    this.#options = options;
    this.#byPort = byPort;
  }

  /** Moves a damaged file aside and starts empty: the agent keeps observing, and the log has the command that restores the credentials. */
  static async open(options: CredentialsStoreOptions): Promise<CredentialsStore> {
    const { file, log } = options;
    let text: string;
    try {
      text = await readFile(file, "utf8");
    } catch (error) {
      if (error instanceof Error && "code" in error && error.code === "ENOENT") return new CredentialsStore(options, new Map());
      throw new CoralError({ code: "unavailable", message: `Cannot read "${file}": ${String(error)}`, cause: error });
    }
    try {
      return new CredentialsStore(options, parseFile(text));
    } catch {
      // The parse error is not logged: it may quote credentials.
      await rename(file, `${file}.damaged`);
      log.error(
        `database credentials file damaged: moved to ${file}.damaged, continuing without credentials; run coral connect --credentials-file again`,
      );
      return new CredentialsStore(options, new Map());
    }
  }

  of(port: number): DatabaseCredentials | undefined {
    return this.#byPort.get(port);
  }

  set(port: number, credentials: DatabaseCredentials): Promise<void> {
    return this.#change((next) => next.set(port, credentials));
  }

  remove(ports: readonly number[]): Promise<void> {
    if (!ports.some((port) => this.#byPort.has(port))) return Promise.resolve();
    return this.#change((next) => {
      for (const port of ports) next.delete(port);
    });
  }

  #change(edit: (next: Map<number, DatabaseCredentials>) => void): Promise<void> {
    const run = async (): Promise<void> => {
      const next = new Map(this.#byPort);
      edit(next);
      const { file, owner } = this.#options;
      await writePrivateFile(file, `${JSON.stringify({ version: fileVersion, ports: Object.fromEntries(next) }, undefined, 2)}\n`, {
        owner,
      });
      this.#byPort = next;
    };
    const done = this.#lastChange.then(run, run);
    // The next change waits for this one, even if it fails.
    this.#lastChange = done.catch(() => undefined);
    return done;
  }
}

function parseFile(text: string): Map<number, DatabaseCredentials> {
  const { version, ports } = JSON.parse(text) as { version?: unknown; ports?: unknown };
  if (version !== fileVersion || typeof ports !== "object" || ports === null)
    throw new CoralError({ code: "corrupt", message: "unknown file format" });
  return new Map(Object.entries(ports).map(([port, value]) => [Number(port), checkCredentials(value)]));
}
