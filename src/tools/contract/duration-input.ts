import * as z from "zod";
import { CoralError } from "../../base/errors.ts";
import { formatDurationMs, parseDurationMs } from "../../base/units.ts";

export interface DurationLimits {
  minMs: number;
  maxMs: number;
}

/** Which schemas are durations: in JSON schema they are plain strings. */
const durations = z.registry<DurationLimits>();

export function isDurationInput(schema: z.core.$ZodType | undefined): boolean {
  // Unlike has(), get() also knows what describe() and its like were called on.
  return schema !== undefined && durations.get(schema) !== undefined;
}

/** A field such as `since` that people write as `5m`; handlers get milliseconds. */
export function durationInput(limits: DurationLimits) {
  const schema = z.string().transform((text, context) => {
    try {
      const durationMs = parseDurationMs(text);
      if (durationMs >= limits.minMs && durationMs <= limits.maxMs) return durationMs;
      context.addIssue(`it must be between ${formatDurationMs(limits.minMs)} and ${formatDurationMs(limits.maxMs)}`);
    } catch (error) {
      // The parser's message is the advice that the caller needs; it becomes the field's problem.
      context.addIssue(CoralError.from(error).message);
    }
    return z.NEVER;
  });
  return schema.register(durations, limits);
}
