/** The `runtime` section: how the agent detects its runtime environment, and what it reports. */

import * as z from "zod";
import { runtimeTypes, sidecarModes } from "../../model/runtime-facts.ts";
import { duration, oneOf, section } from "../schema/schema-parts.ts";

const maxTargets = 64;

export const agentRuntimeSection = section({
  reporting: section({
    enabled: z
      .boolean({ error: "write true or false" })
      .meta({ kind: "true | false", description: "Report this agent's runtime environment and capabilities to the colony" })
      .prefault(true),
    log_detection: z
      .boolean({ error: "write true or false" })
      .meta({ kind: "true | false", description: "Log what was detected" })
      .prefault(true),
  }),
  refresh_interval: duration("How often detection runs again; only changes are reported to the colony", {
    min: "10s",
    max: "1d",
  }).prefault("5m"),
  refresh_on_config: z
    .boolean({ error: "write true or false" })
    .meta({ kind: "true | false", description: "Run detection again when the config is reloaded" })
    .prefault(true),
  override: section({
    runtime_type: oneOf("Override the detected runtime; empty: detect", ["", ...runtimeTypes]).prefault(""),
    sidecar_mode: oneOf("Override the detected mode of a Kubernetes sidecar; empty: detect", ["", ...sidecarModes]).prefault(""),
  }),
  targets: z
    .array(z.string().min(1, "it must not be empty").max(253, "it must have at most 253 characters"))
    .max(maxTargets, `list at most ${maxTargets} names`)
    .meta({ kind: "list of text", description: "Containers of the pod that a sidecar may target; empty: all" })
    .prefault([]),
});

export interface AgentRuntimeConfig {
  isReported: boolean;
  logsDetection: boolean;
  refreshIntervalMs: number;
  refreshOnConfig: boolean;
  /** Empty strings: detect. */
  override: { runtimeType: string; sidecarMode: string };
  targets: string[];
}

export function toAgentRuntime(file: z.output<typeof agentRuntimeSection>): AgentRuntimeConfig {
  return {
    isReported: file.reporting.enabled,
    logsDetection: file.reporting.log_detection,
    refreshIntervalMs: file.refresh_interval,
    refreshOnConfig: file.refresh_on_config,
    override: { runtimeType: file.override.runtime_type, sidecarMode: file.override.sidecar_mode },
    targets: file.targets,
  };
}
