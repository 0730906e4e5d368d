import type { AgentTrafficConfig } from "../../config/index.ts";
import type { TrafficSettings } from "../../traffic/index.ts";

/** Settings for the traffic process. `excludedPids`: processes whose TLS traffic must not be read. */
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
