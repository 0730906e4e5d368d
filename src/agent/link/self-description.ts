/** What this agent tells the colony of itself when it registers. */

import type { Clock } from "../../base/clock.ts";
import type { AgentConfig } from "../../config/index.ts";
import type { HostReader } from "../../host/index.ts";
import { runtimeProtocolVersion } from "../../model/runtime-facts.ts";
import type { AgentStore } from "../../store/agent/index.ts";
import { runtimeToWire } from "../../transport/index.ts";
import type { RuntimeReporter } from "../runtime/runtime-reporter.ts";
import { SteadyChange } from "../runtime/steady-change.ts";
import type { AgentDescription } from "./colony-link.ts";

export interface SelfDescriptionSources {
  version: string;
  machine: ReturnType<HostReader["machine"]>;
  store: Pick<AgentStore, "epoch">;
  config: () => AgentConfig;
  /** What it can do now, with reasons where not. */
  capabilities: () => AgentDescription["capabilities"];
  runtime: () => Pick<RuntimeReporter, "current" | "fingerprint">;
  clock: Clock;
}

/** The traffic process may be away for a moment and come back. */
const holdMs = 10_000;

export class SelfDescription {
  /** What the colony was told last. */
  readonly change = new SteadyChange(holdMs);
  readonly #sources: SelfDescriptionSources;

  constructor(sources: SelfDescriptionSources) {
    this.#sources = sources;
  }

  /** For a registration: what it says counts as told. */
  describe(): AgentDescription {
    const { version, machine, store, config, capabilities, runtime, clock } = this.#sources;
    this.change.tell(this.fingerprint());
    return {
      protocolVersion: runtimeProtocolVersion,
      version,
      host: machine,
      epoch: store.epoch,
      labels: config().labels,
      capabilities: capabilities(),
      wallMs: BigInt(Math.round(clock.wallMs())),
      outsideNames: outsideNames(config()),
      ...(config().runtime.isReported ? { runtimeContext: runtimeToWire(runtime().current()) } : {}),
    };
  }

  /** All of it that can change while the agent runs, as one text. */
  fingerprint(): string {
    const { config, capabilities, runtime } = this.#sources;
    return JSON.stringify([capabilities(), runtime().fingerprint(), saidOf(config())]);
  }
}

/** What of the config goes into the registration. */
export function saidOf(config: AgentConfig): string {
  return JSON.stringify([config.labels, config.serviceDiscovery.network]);
}

/** What this agent wants of the names of addresses that it sees; the colony finds them. */
function outsideNames({ serviceDiscovery: { network } }: AgentConfig): NonNullable<AgentDescription["outsideNames"]> {
  return {
    noReverseDns: !network.resolveExternalIps,
    noProviderRanges: !network.detectCloudProviders,
    maxCacheMs: BigInt(network.dnsCacheTtlMs ?? 0),
  };
}
