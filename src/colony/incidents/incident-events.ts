/** Messages of events about incidents. */

import { formatDurationMs } from "../../base/units.ts";
import { type Incident, incidentId } from "../../model/incident.ts";
import type { StoredEvent } from "../../store/colony/index.ts";

export type IncidentEventKind = "incident-opened" | "incident-updated" | "incident-closed";

export function incidentEvent(
  kind: IncidentEventKind,
  incident: Incident,
  labelOf: (service: string) => string,
  atMs: number,
): StoredEvent {
  const [first] = incident.symptoms;
  const entry = labelOf(first?.service ?? "");
  const id = incidentId(incident.number);
  const cause =
    incident.cause === null ? "no cause found yet" : `${incident.cause.summary} (${Math.round(incident.cause.confidence * 100)}% sure)`;
  const words = {
    "incident-opened": `${entry}: ${first?.message ?? ""}; ${cause}`,
    "incident-updated": `${entry}: ${incident.timeline.at(-1)?.text ?? ""}`,
    "incident-closed":
      incident.state === "merged"
        ? `${entry}: ${incident.timeline.at(-1)?.text ?? ""}`
        : `${entry} recovered after ${formatDurationMs(Math.max(0, Math.round(((incident.endedMs ?? atMs) - incident.startedMs) / 1_000) * 1_000))}; ${cause}`,
  }[kind];
  const services = [...new Set(incident.symptoms.map(({ service }) => service))];
  return {
    atMs,
    kind,
    message: `${id} ${words}`,
    details: {
      incident: id,
      state: incident.state,
      severity: incident.severity,
      service: first?.service ?? "",
      services,
      cause: incident.cause?.service ?? null,
      news: incident.timeline.at(-1)?.kind ?? null,
    },
  };
}
