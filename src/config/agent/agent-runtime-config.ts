/** The `runtime` section: how the agent finds out where it runs, and what it tells of that. */

import * as z from "zod";
import { runtimeTypes, sidecarModes } from "../../model/runtime-facts.ts";
import { duration, oneOf, section } from "../schema/schema-parts.ts";

const maxTargets = 64;

export const agentRuntimeSection = section({
  reporting: section({
    enabled: z
      .boolean({ error: "write true or false" })
      .meta({ kind: "true | false", description: "Tell the colony where this agent runs and what it can do" })
      .prefault(true),
    log_detection: z
      .boolean({ error: "write true or false" })
      .meta({ kind: "true | false", description: "Write to the log what was found" })
      .prefault(true),
  }),
  refresh_interval: duration("How often the agent looks again; the colony hears of it only when something changed", {
    min: "10s",
    max: "1d",
  }).prefault("5m"),
  refresh_on_config: z
    .boolean({ error: "write true or false" })
    .meta({ kind: "true | false", description: "Look again when the config is reloaded" })
    .prefault(true),
  override: section({
    runtime_type: oneOf("Take this for granted instead of finding out; empty: find out", ["", ...runtimeTypes]).prefault(""),
    sidecar_mode: oneOf("The same for the mode of a Kubernetes sidecar", ["", ...sidecarModes]).prefault(""),
  }),
  targets: z
    .array(z.string().min(1, "it must not be empty").max(253, "it must have at most 253 characters"))
    .max(maxTargets, `there may be at most ${maxTargets} names`)
    .meta({ kind: "list of text", description: "Containers of its pod that a sidecar may aim at; empty: all of them" })
    .prefault([]),
});

export interface AgentRuntimeConfig {
  isReported: boolean;
  logsDetection: boolean;
  refreshIntervalMs: number;
  refreshOnConfig: boolean;
  /** Empty texts: find out. */
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
