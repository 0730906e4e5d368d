/** Options that many commands share. */

import type { OptionSpec } from "../run/command-spec.ts";
import { outputFormats } from "../run/output-format.ts";

export const dataOutput: readonly OptionSpec[] = [
  { name: "output", short: "o", value: "format", description: "How to print", choices: outputFormats, default: "table" },
  { name: "json", description: "The same as -o json" },
];

export const watchedOutput: readonly OptionSpec[] = [
  ...dataOutput,
  { name: "watch", short: "w", value: "interval", valueOptional: true, description: "Print again and again (default 2s)" },
];

export const listenOptions: readonly OptionSpec[] = [
  { name: "port", value: "port", description: "Port instead of the configured one; 0 picks a free one" },
  { name: "listen", value: "host:port", description: "Address instead of the configured one" },
  { name: "log-format", value: "format", description: "Form of log lines", choices: ["json", "text"] },
];

export const agentOption: OptionSpec = {
  name: "agent",
  value: "agent",
  description: "Only at this agent (id or host name)",
  completes: "agents",
};

export const serviceOption: OptionSpec = { name: "service", value: "name", description: "Only this service", completes: "services" };

export function sinceOption(defaultValue: string): OptionSpec {
  return { name: "since", value: "duration", description: "How far back to look: 5m, 2h, 7d", default: defaultValue };
}
