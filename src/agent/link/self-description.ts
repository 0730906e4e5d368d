/** The agent's description of itself in a registration. */

import type { Clock } from "../../base/clock.ts";
import type { AgentConfig } from "../../config/index.ts";
import { type HostReader, ownPidNamespace } from "../../host/index.ts";
import { runtimeProtocolVersion } from "../../model/runtime-facts.ts";
import type { AgentStore } from "../../store/agent/index.ts";
import { runtimeToWire } from "../../transport/index.ts";
import { DebouncedValue } from "../runtime/debounced-value.ts";
import type { RuntimeReporter } from "../runtime/runtime-reporter.ts";
import type { AgentDescription } from "./colony-link.ts";

export interface SelfDescriptionSources {
  version: string;
  machine: ReturnType<HostReader["machine"]>;
  store: Pick<AgentStore, "epoch">;
  config: () => AgentConfig;
  /** Current capabilities, with a reason for each missing one. */
  capabilities: () => AgentDescription["capabilities"];
  runtime: () => Pick<RuntimeReporter, "current" | "fingerprint">;
  clock: Clock;
}

/** The traffic process may restart within this time. */
const holdMs = 10_000;

/** Compares fingerprints, so that a capability that flips for a moment causes no new registration. */
export class SelfDescription {
  /** The last reported fingerprint. */
  readonly reported = new DebouncedValue(holdMs);
  readonly #sources: SelfDescriptionSources;

  constructor(sources: SelfDescriptionSources) {
    this.#sources = sources;
  }

  /** For a registration: its content counts as reported. */
  describe(): AgentDescription {
    const { version, machine, store, config, capabilities, runtime, clock } = this.#sources;
    this.reported.markReported(this.fingerprint());
    return {
      protocolVersion: runtimeProtocolVersion,
      version,
      host: { ...machine, pidNamespace: BigInt(ownPidNamespace()?.inode ?? 0) },
      epoch: store.epoch,
      labels: config().labels,
      capabilities: capabilities(),
      wallMs: BigInt(Math.round(clock.wallMs())),
      outsideNames: outsideNames(config()),
      ...(config().runtime.isReported ? { runtimeContext: runtimeToWire(runtime().current()) } : {}),
    };
  }

  /** Everything in it that can change while the agent runs. */
  fingerprint(): string {
    const { config, capabilities, runtime } = this.#sources;
    return JSON.stringify([capabilities(), runtime().fingerprint(), registeredConfig(config())]);
  }
}

/** The part of the config that a registration contains. */
export function registeredConfig(config: AgentConfig): string {
  return JSON.stringify([config.labels, config.serviceDiscovery.network]);
}

/** How the colony may resolve names of addresses that this agent sees. */
function outsideNames({ serviceDiscovery: { network } }: AgentConfig): NonNullable<AgentDescription["outsideNames"]> {
  return {
    noReverseDns: !network.resolveExternalIps,
    noProviderRanges: !network.detectCloudProviders,
    maxCacheMs: BigInt(network.dnsCacheTtlMs ?? 0),
  };
}
