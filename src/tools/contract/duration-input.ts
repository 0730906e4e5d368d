import * as z from "zod";
import { CoralError } from "../../base/errors.ts";
import { formatDurationMs, parseDurationMs } from "../../base/units.ts";

export interface DurationLimits {
  minMs: number;
  maxMs: number;
}

/** Marks duration schemas, which look like plain strings in JSON schema. */
const durations = z.registry<DurationLimits>();

export function isDurationInput(schema: z.core.$ZodType | undefined): boolean {
  // Unlike has(), get() also follows schemas derived by describe() and similar calls.
  return schema !== undefined && durations.get(schema) !== undefined;
}

/** A field such as `since`: callers write `5m`, handlers get milliseconds. */
export function durationInput(limits: DurationLimits) {
  const schema = z.string().transform((text, context) => {
    try {
      const durationMs = parseDurationMs(text);
      if (durationMs >= limits.minMs && durationMs <= limits.maxMs) return durationMs;
      context.addIssue(`it must be between ${formatDurationMs(limits.minMs)} and ${formatDurationMs(limits.maxMs)}`);
    } catch (error) {
      // The parser's message already contains the fix: report it as the field's problem.
      context.addIssue(CoralError.from(error).message);
    }
    return z.NEVER;
  });
  return schema.register(durations, limits);
}
