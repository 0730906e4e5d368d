import * as z from "zod";
import type { ColonyEvent } from "../../model/events.ts";
import { isoTimeSchema } from "./agent.ts";

export const colonyEventSchema = z.object({
  at: isoTimeSchema,
  kind: z.string(),
  severity: z.enum(["info", "warning", "error"]),
  agentId: z.string().nullable(),
  service: z.string().nullable(),
  message: z.string(),
  details: z.record(z.string(), z.unknown()),
}) satisfies z.ZodType<ColonyEvent>;

/** Output of coral_list_events; newest first. */
export const eventListSchema = z.object({ events: z.array(colonyEventSchema) });
export type EventList = z.infer<typeof eventListSchema>;
