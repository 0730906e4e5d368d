import * as z from "zod";
import type { SqlResult } from "../../model/sql.ts";

/** Output of coral_query_sql. */
export const sqlResultSchema = z.object({
  columns: z.array(z.object({ name: z.string(), type: z.string() })),
  rows: z.array(z.array(z.unknown())),
  truncated: z.boolean(),
  elapsedMs: z.number(),
  views: z.array(z.string()),
}) satisfies z.ZodType<SqlResult>;
