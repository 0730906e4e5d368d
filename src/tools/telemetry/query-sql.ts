import * as z from "zod";
import type { SqlResult } from "../../model/sql.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { defineTool } from "../contract/define-tool.ts";
import { durationInput } from "../contract/duration-input.ts";
import { activeAgents } from "../contract/match-agents.ts";
import { lossNotes, silentAgentNotes } from "../contract/missing-data.ts";
import { type CompletenessNote, completenessOf } from "../schemas/completeness.ts";

const resultMaxBytes = 4 * 1024 ** 2;

/** Output of coral_query_sql. */
const sqlResultSchema = z.object({
  columns: z.array(z.object({ name: z.string(), type: z.string() })),
  rows: z.array(z.array(z.unknown())),
  truncated: z.boolean(),
  elapsedMs: z.number(),
  views: z.array(z.string()),
}) satisfies z.ZodType<SqlResult>;

export const querySql = defineTool({
  name: "coral_query_sql",
  title: "SQL over stored signals",
  description:
    "Run one read-only DuckDB SELECT over the published views. SHOW TABLES lists the views, DESCRIBE host the columns of one; `time` is the sample time in UTC.",
  input: z.object({
    sql: z.string().min(1).describe("one SELECT, WITH, VALUES, SHOW TABLES or DESCRIBE statement"),
    maxRows: z.int().min(1).max(10_000).default(200).describe("maximum number of rows"),
    timeout: durationInput({ minMs: 1, maxMs: 60_000 }).prefault("10s").describe("how long it may run, at most 60s"),
  }),
  output: sqlResultSchema,
  permission: "read",
  changes: false,
  handle: async (backend: ColonyBackend, input, context) => {
    const request = { sql: input.sql, maxRows: input.maxRows, maxBytes: resultMaxBytes, timeoutMs: input.timeout };
    const output = await backend.sql(request, context);
    const notes: CompletenessNote[] = [];
    if (output.truncated) {
      const message = `the result was cut after ${output.rows.length} rows; aggregate, add LIMIT, or raise maxRows`;
      notes.push({ kind: "limit", message, rows: output.rows.length });
    }
    if (output.views.length > 0) {
      // A roll-up misses what its signal misses.
      const signals = [...new Set(output.views.map((view) => view.replace(/_(1m|10m)$/, "")))];
      const [agents, losses] = await Promise.all([backend.agents(context), backend.losses({ signals }, context)]);
      notes.push(...silentAgentNotes(activeAgents(agents)), ...lossNotes(losses));
    }
    return { output, completeness: completenessOf(notes) };
  },
});
