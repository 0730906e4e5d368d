import * as z from "zod";

/** What an answer lacks. Counted at the source, carried with the data, printed when not empty. */
export const completenessSchema = z.object({
  complete: z.boolean().describe("true when nothing is known to be missing"),
  notes: z.array(
    z.object({
      kind: z.enum([
        "agent-silent",
        "unobserved",
        "rows-lost",
        "rows-pruned",
        "limit",
        "no-data",
        "unavailable",
        "clock",
        "sampled",
        "unattributed",
      ]),
      message: z.string(),
      agent: z.string().optional(),
      signal: z.string().optional(),
      rows: z.number().optional(),
    }),
  ),
});

export type Completeness = z.infer<typeof completenessSchema>;
export type CompletenessNote = Completeness["notes"][number];

/** Answer of a tool: its output plus completeness. */
export type Answer<Output> = Output & { completeness: Completeness };

export function completenessOf(notes: CompletenessNote[]): Completeness {
  return { complete: notes.length === 0, notes };
}
