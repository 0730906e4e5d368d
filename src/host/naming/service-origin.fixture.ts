import type { OriginFacts } from "./service-origin.ts";

export interface OriginFixture extends Partial<OriginFacts> {
  /** OTEL_RESOURCE_ATTRIBUTES. */
  resource?: string;
}

/** `command`: split at blanks, its first word is the executable. */
export function originFacts(command: string | readonly string[], { resource, ...more }: OriginFixture = {}): OriginFacts {
  const args = typeof command === "string" ? command.split(" ") : command;
  return {
    exe: args[0] ?? null,
    processName: "x",
    arguments: args,
    workingDirectory: "/",
    environment: new Map(resource === undefined ? [] : [["OTEL_RESOURCE_ATTRIBUTES", resource]]),
    unit: null,
    container: null,
    kubernetes: null,
    redact: (text) => text,
    ...more,
  };
}
