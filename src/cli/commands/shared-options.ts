/** Options shared by several commands that are not fields of a tool. */

import type { OptionSpec } from "../run/command-spec.ts";
import { graphFormats, outputFormats, profileFormats } from "../run/output-format.ts";

/** -o and --json, for commands that print in these formats; the first is the default. */
export function outputOptions(choices: readonly string[], description = "Output format"): readonly OptionSpec[] {
  return [
    { name: "output", short: "o", value: "format", description, choices, ...(choices[0] === undefined ? {} : { default: choices[0] }) },
    { name: "json", description: "Same as -o json" },
  ];
}

const watchOption: OptionSpec = {
  name: "watch",
  short: "w",
  value: "interval",
  valueOptional: true,
  description: "Refresh at this interval (default 2s)",
};

export const dataOutput: readonly OptionSpec[] = outputOptions(outputFormats);
export const watchedOutput: readonly OptionSpec[] = [...dataOutput, watchOption];
export const graphOutput: readonly OptionSpec[] = [...outputOptions(graphFormats, "Output format; dot is a GraphViz graph"), watchOption];

export const profileOutput: readonly OptionSpec[] = [
  ...outputOptions(profileFormats, "Output format; folded prints one line per stack, for flame graph tools"),
  watchOption,
];

export const listenOptions: readonly OptionSpec[] = [
  { name: "port", value: "port", description: "Listen on this port instead of the configured one; 0 picks a free one" },
  { name: "listen", value: "host:port", description: "Listen on this address instead of the configured one" },
  { name: "log-format", value: "format", description: "Format of log lines", choices: ["json", "text"] },
];

/** Options of daemons. */
export const startOptions: readonly OptionSpec[] = [
  { name: "daemon", short: "d", description: "Run in the background; return when the daemon is ready" },
  { name: "config", value: "file", description: "Config file instead of the one under CORAL_HOME", completes: "files" },
  ...listenOptions,
];

export const stopOptions: readonly OptionSpec[] = [
  { name: "timeout", value: "duration", description: "How long to wait for the process to exit", default: "30s" },
];

/** Options of commands that read from one agent without a tool. */
export const agentOption: OptionSpec = {
  name: "agent",
  value: "agent",
  description: "Only this agent (id or host name)",
  completes: "agents",
};
