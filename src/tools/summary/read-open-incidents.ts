/** Summarizes open incidents in one line, for answers about all services or one. */

import { type Incident, incidentId } from "../../model/incident.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import type { ToolCallContext } from "../contract/define-tool.ts";
import type { OpenIncidents } from "../schemas/incident.ts";

const readMax = 50;
const dayMs = 86_400_000;

/** Undefined: none. With a service: incidents that affect it or have it on the path to the cause. */
export async function readOpenIncidents(
  backend: Pick<ColonyBackend, "incidents">,
  service: string | undefined,
  context: ToolCallContext,
): Promise<OpenIncidents | undefined> {
  const { incidents, open } = await backend.incidents({ state: "open", sinceMs: dayMs, limit: readMax }, context);
  const own = service === undefined ? incidents : incidents.filter((incident) => concerns(incident, service));
  const [worst] = own.toSorted((a, b) => rank(a) - rank(b));
  const [symptom] = worst?.symptoms ?? [];
  if (worst === undefined || symptom === undefined) return undefined;
  return {
    open: service === undefined ? open : own.length,
    worst: {
      id: incidentId(worst.number),
      severity: worst.severity,
      since: new Date(worst.startedMs).toISOString(),
      endedAt: worst.endedMs === null ? null : new Date(worst.endedMs).toISOString(),
      service: symptom.service,
      measure: symptom.measure,
      now: symptom.now,
    },
  };
}

function concerns({ symptoms, cause }: Incident, service: string): boolean {
  return symptoms.some((symptom) => symptom.service === service) || cause?.service === service || cause?.chain.includes(service) === true;
}

/** Ongoing incidents first. */
function rank({ endedMs, severity }: Incident): number {
  return Number(endedMs !== null) * 2 + Number(severity === "warning");
}
