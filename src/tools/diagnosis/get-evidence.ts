import * as z from "zod";
import { CoralError } from "../../base/errors.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { defineTool } from "../contract/define-tool.ts";
import { completenessOf } from "../schemas/completeness.ts";
import { evidenceSchema } from "../schemas/diagnosis.ts";

export const getEvidence = defineTool({
  name: "coral_evidence",
  title: "Evidence",
  description: "Open evidence of a diagnosis by id.",
  input: z.object({ id: z.string().min(1).describe("such as ev-8200f310") }),
  output: evidenceSchema,
  permission: "read",
  changes: false,
  handle: async (backend: ColonyBackend, { id }) => {
    const found = await backend.evidence(id);
    if (found === undefined)
      throw new CoralError({
        code: "not-found",
        message: `Cannot open evidence "${id}": the colony does not have it; run coral diagnose again for new ids`,
        details: { id },
      });
    const { before, after, ...rest } = found;
    const iso = (ms: number): string => new Date(ms).toISOString();
    const output = {
      ...rest,
      from: iso(after.fromMs),
      until: iso(after.untilMs),
      comparedWith: before.map(({ fromMs, untilMs }) => ({ from: iso(fromMs), until: iso(untilMs) })),
    };
    return { output, completeness: completenessOf([]) };
  },
});
