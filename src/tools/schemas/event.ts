import * as z from "zod";
import { isoTimeSchema } from "./agent.ts";

/** Something that happened: an agent joined, a service restarted, a service calls someone new, a file was moved aside. */
export const colonyEventSchema = z.object({
  at: isoTimeSchema,
  /** noun-verb: `agent-joined`, `service-restarted`, `egress-new`. */
  kind: z.string(),
  severity: z.enum(["info", "warning", "error"]),
  agentId: z.string().nullable(),
  /** The service that it is about; null for what concerns agents and the colony. */
  service: z.string().nullable(),
  message: z.string(),
  details: z.record(z.string(), z.unknown()),
});
export type ColonyEvent = z.infer<typeof colonyEventSchema>;

/** Output of coral_list_events; newest first. */
export const eventListSchema = z.object({ events: z.array(colonyEventSchema) });
export type EventList = z.infer<typeof eventListSchema>;
