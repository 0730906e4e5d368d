import type { TrafficSettings } from "../../src/traffic/core/messages.ts";

/** Observes everything except TLS, without a CPU limit. */
export const testTrafficSettings: TrafficSettings = {
  windowMs: 10_000,
  maxRequestKinds: 4096,
  maxConnections: 16_384,
  maxRoutesPerService: 200,
  ringBytes: 8 << 20,
  tls: { isEnabled: false, excludedExecutables: [] },
  cpuBudget: 1,
};
