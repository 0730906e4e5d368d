import * as z from "zod";

/** Output of coral_query_sql. Values are JSON: timestamps ISO 8601 UTC, integers past 2^53 text, blobs hex text. */
export const sqlResultSchema = z.object({
  columns: z.array(z.object({ name: z.string(), type: z.string() })),
  /** One array per row, in the order of `columns`. */
  rows: z.array(z.array(z.unknown())),
  /** True when the row or byte limit cut the result. */
  truncated: z.boolean(),
  elapsedMs: z.number(),
  /** The published views that the statement reads. */
  views: z.array(z.string()),
});
export type SqlResult = z.infer<typeof sqlResultSchema>;
