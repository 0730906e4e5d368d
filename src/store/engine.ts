import type { Logger } from "../base/log.ts";
import { CoralError } from "../base/errors.ts";
import type { Database, Migration } from "./database.ts";

export interface EngineOptions {
  /** The only folders that SQL can reach. */
  dataDirectories: readonly string[];
  memoryLimitBytes: number;
  threads: number;
  /** Where large sorts spill. Default: nowhere, they fail as `exhausted`. */
  tempDirectory?: string;
  log: Logger;
}

/** The one DuckDB instance of this process. */
export interface Engine extends AsyncDisposable {
  attach(name: string, file: string, migrations: readonly Migration[]): Promise<Database>;
  /** Closes every database first. */
  close(): Promise<void>;
}

/** Refuses a second engine in one process: two DuckDB instances over one file lose data silently. */
export function openEngine(_options: EngineOptions): Promise<Engine> {
  return Promise.reject(new CoralError({ code: "unsupported", message: "Cannot open the store engine: not built yet" }));
}
