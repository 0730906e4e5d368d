import type { AgentTrafficConfig } from "../../config/index.ts";
import type { TrafficSettings } from "../../traffic/index.ts";

/** What the traffic process is told of the config. `excludedPids` are those of services whose TLS stays closed. */
export function trafficSettings(config: AgentTrafficConfig, cores: number, excludedPids: readonly number[]): TrafficSettings {
  return {
    windowMs: config.intervalMs,
    maxRequestKinds: config.maxRequestKinds,
    maxConnections: config.maxConnections,
    maxRoutesPerService: config.maxRoutesPerService,
    ringBytes: config.ringBytes,
    tls: { isEnabled: config.tls.enabled, excludedExecutables: config.tls.exclude, excludedPids: [...excludedPids] },
    disabledProtocols: config.disabledProtocols,
    cpuBudget: config.cpuBudgetRatio * cores,
  };
}
