/** Connects the runtime reporter to the agent's config, cluster, kernel and traffic hooks. */

import type { AgentConfig } from "../config/index.ts";
import { detectRuntime } from "../host/index.ts";
import type { AgentOptions } from "./agent-context.ts";
import { createPodOwner } from "./runtime/pod-owner.ts";
import { refusedCommands, runtimeCapabilities } from "./runtime/runtime-capabilities.ts";
import { RuntimeReporter } from "./runtime/runtime-reporter.ts";
import type { TrafficReadings } from "./traffic/traffic-collector.ts";
import { trafficStatus } from "./traffic/traffic-status.ts";

type ReporterOptions = Pick<AgentOptions, "fetchClusterJson" | "kernel" | "version" | "clock" | "log">;

export function openRuntimeReporter(
  { fetchClusterJson, kernel = [], version, clock, log }: ReporterOptions,
  config: () => AgentConfig,
  traffic: () => TrafficReadings,
  signal: AbortSignal,
): Promise<RuntimeReporter> {
  const ownLog = log.child("runtime");
  const podOwner = fetchClusterJson && createPodOwner({ fetchJson: fetchClusterJson, env: process.env, log: ownLog });
  return RuntimeReporter.open(
    {
      detect: (during) => {
        const { override, targets } = config().runtime;
        return detectRuntime({ env: process.env, override, targets, signal: during, ...(podOwner ? { podOwner } : {}) });
      },
      capabilities: ({ runtimeType, sidecarMode, entersNamespaces, containerRuntime }) => {
        const { state, reason, fix } = trafficStatus(traffic());
        const isOff = state === "off";
        const capture = { available: !isOff, reason: isOff ? (reason ?? "") : "", fix: isOff ? (fix ?? "") : "" };
        return runtimeCapabilities({
          runtimeType,
          sidecarMode,
          entersNamespaces,
          hasContainerRuntime: containerRuntime !== null,
          kernel,
          capture,
          refused: refusedCommands(config().exec),
        });
      },
      version,
      logsDetection: () => config().runtime.logsDetection,
      clock,
      log: ownLog,
    },
    signal,
  );
}
