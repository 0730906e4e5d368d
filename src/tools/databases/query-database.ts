import * as z from "zod";
import { CoralError } from "../../base/errors.ts";
import { databaseFindings } from "../../diagnosis/index.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { defineTool } from "../contract/define-tool.ts";
import { type CompletenessNote, completenessOf } from "../schemas/completeness.ts";
import { databaseListSchema } from "../schemas/database.ts";
import { findService } from "../services/find-service.ts";
import { connectLine } from "./connect-line.ts";
import { inspectService } from "./inspect-service.ts";

export const queryDatabase = defineTool({
  name: "coral_query_database",
  title: "Database",
  description: "Inspect a database that has credentials: lock holders, plans and missing indexes, sessions, tables; Redis memory.",
  input: z.object({
    service: z.string().min(1).describe("name of the database service"),
    statement: z.string().min(1).max(4_000).optional().describe("SQL as named in requests, with ? for values, to explain"),
  }),
  output: databaseListSchema,
  permission: "read",
  changes: false,
  handle: async (backend: ColonyBackend, input, context) => {
    const service = await findService(backend, input.service, context);
    const { found, problems } = await inspectService(backend, { service, statement: input.statement ?? null }, context);
    const [first] = problems;
    if (found.length === 0) {
      const isUnknown = problems.every(({ code }) => code === "not-found");
      throw new CoralError({
        code: isUnknown ? "not-found" : (first?.code ?? "unavailable"),
        message: isUnknown
          ? `cannot inspect "${service}": no agent has credentials for it; on its host, run ${connectLine(service)}`
          : (first?.message ?? ""),
      });
    }
    const databases = found.map(({ agentId, port, readAt, facts }) => ({
      agentId,
      port,
      readAt,
      ...facts,
      findings: databaseFindings(facts),
    }));
    const notes = problems
      .filter(({ code }) => code !== "not-found")
      .map(({ message }): CompletenessNote => ({ kind: "no-data", message }));
    return { output: { service, databases }, completeness: completenessOf(notes) };
  },
});
