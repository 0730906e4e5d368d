import * as z from "zod";
import { incidentStates } from "../../model/incident.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { limitInput, sinceInput } from "../contract/common-inputs.ts";
import { defineTool } from "../contract/define-tool.ts";
import { completenessOf } from "../schemas/completeness.ts";
import { incidentsSchema } from "../schemas/incident.ts";
import { briefOf, detailOf, findIncident } from "./incident-view.ts";

export const listIncidents = defineTool({
  name: "coral_incidents",
  title: "Incidents",
  description: "List incidents, open first: affected service, start, cause. With id: cause, chain, evidence, timeline, next step.",
  input: z.object({
    id: z.string().min(1).max(40).optional().describe("such as inc-7"),
    state: z.enum(incidentStates).optional(),
    since: sinceInput("7d", { minMs: 60_000 }),
    limit: limitInput(12, 200),
  }),
  output: incidentsSchema,
  permission: "read",
  changes: false,
  handle: async (backend: ColonyBackend, { id, state, since, limit }, context) => {
    const nowMs = backend.nowMs();
    if (id !== undefined) {
      const [incident, { open }] = await Promise.all([
        findIncident(backend, id, context),
        backend.incidents({ state: "open", sinceMs: since, limit: 1 }, context),
      ]);
      return { output: { open, incidents: [], incident: detailOf(incident, nowMs) }, completeness: completenessOf([]) };
    }
    const { incidents, open } = await backend.incidents({ sinceMs: since, limit: limit + 1, ...(state && { state }) }, context);
    const notes =
      incidents.length > limit ? [{ kind: "limit" as const, message: `only the newest ${limit} incidents are shown; raise limit` }] : [];
    return {
      output: { open, incidents: incidents.slice(0, limit).map((one) => briefOf(one, nowMs)), incident: null },
      completeness: completenessOf(notes),
    };
  },
});
