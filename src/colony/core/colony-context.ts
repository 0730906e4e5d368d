import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import type { ColonyConfig, ColonyPaths, FileOwner } from "../../config/index.ts";
import type { Engine } from "../../store/engine/index.ts";
import type { ControlServerOptions } from "../../transport/index.ts";
import type { StoreWrites } from "./store-writes.ts";

export interface ColonyOptions {
  config: ColonyConfig;
  paths: ColonyPaths;
  engine: Engine;
  version: string;
  owner: FileOwner | undefined;
  peerCredentials: ControlServerOptions["peerCredentials"];
  /** Of the machine that it runs on: agents of this boot share its clock. */
  bootId?: string;
  /** How many further ports to try when the configured one is in use. */
  portSearch: number;
  /** Called when OTLP load justifies more memory for speed, and when it no longer does. */
  onOtlpLoad?: (isBusy: boolean) => void;
  /** The same, for the output of commands. */
  onCommandLoad?: (isBusy: boolean) => void;
  clock: Clock;
  log: Logger;
}

/** What every part of a running colony shares. A reload replaces `config`: read it each time instead of keeping a copy. */
export interface ColonyContext extends ColonyOptions {
  writes: StoreWrites;
  /** `host:port` for agents and the CLI; empty until the colony listens. */
  endpoint: string;
  /** Aborts when the colony is closed. */
  stopped: AbortSignal;
}
