import * as z from "zod";
import { isoTimeSchema } from "./agent.ts";

/** Something that happened: an agent joined, its health changed, rows were lost, a file was moved aside. */
export const colonyEventSchema = z.object({
  at: isoTimeSchema,
  /** noun-verb: `agent-joined`, `agent-health-changed`, `rows-lost`. */
  kind: z.string(),
  severity: z.enum(["info", "warning", "error"]),
  agentId: z.string().nullable(),
  message: z.string(),
  details: z.record(z.string(), z.unknown()),
});
export type ColonyEvent = z.infer<typeof colonyEventSchema>;

/** Output of coral_list_events; newest first. */
export const eventListSchema = z.object({ events: z.array(colonyEventSchema) });
export type EventList = z.infer<typeof eventListSchema>;
