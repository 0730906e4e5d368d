import type { AgentTrafficConfig } from "../config/index.ts";
import type { TrafficSettings } from "../traffic/index.ts";

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

/** Whether a name is one of the patterns; `*` stands for anything. */
export function matcherOf(patterns: readonly string[]): (name: string) => boolean {
  if (patterns.length === 0) return () => false;
  const source = patterns.map((pattern) => pattern.split("*").map(escaped).join(".*")).join("|");
  const expression = new RegExp(`^(?:${source})$`, "s");
  return (name) => expression.test(name);
}

function escaped(text: string): string {
  return text.replace(/[\\^$.|?+()[\]{}]/g, "\\$&");
}
