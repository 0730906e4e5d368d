import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/log.ts";
import type { ColonyConfig, ColonyPaths, FileOwner } from "../../config/index.ts";
import type { Engine } from "../../store/engine/index.ts";
import type { ControlServerOptions } from "../../transport/index.ts";

export interface ColonyOptions {
  config: ColonyConfig;
  paths: ColonyPaths;
  engine: Engine;
  version: string;
  owner: FileOwner | undefined;
  peerCredentials: ControlServerOptions["peerCredentials"];
  /** Ports to try after a taken one. */
  portSearch: number;
  /** Told when so much OTLP comes that being fast is worth memory, and when that is over. */
  onOtlpLoad?: (isBusy: boolean) => void;
  /** The same, for the output of commands. */
  onCommandLoad?: (isBusy: boolean) => void;
  clock: Clock;
  log: Logger;
}

/** What all parts of a running colony are made with. `config` is that of the last reload: whoever must see changes reads it each time. */
export interface ColonyContext extends ColonyOptions {
  /** Why the last write failed; empty while writes succeed. */
  writeProblem: string;
  /** `host:port` for agents and the CLI; empty until it listens. */
  endpoint: string;
  /** Aborts when the colony is closed. */
  stopped: AbortSignal;
}
