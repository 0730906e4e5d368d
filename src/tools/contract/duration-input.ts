import * as z from "zod";
import { CoralError } from "../../base/errors.ts";
import { formatDurationMs, parseDurationMs } from "../../base/units.ts";

export interface DurationLimits {
  minMs: number;
  maxMs: number;
}

/** A field such as `since` that people write as `5m`; handlers get milliseconds. */
export function durationInput(limits: DurationLimits) {
  return z.string().transform((text, context) => {
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
}
