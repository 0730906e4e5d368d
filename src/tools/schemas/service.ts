import * as z from "zod";
import { agentHealthSchema, isoTimeSchema } from "./agent.ts";

/** One service and port at one agent, from that agent's newest `listener` sample. */
export const serviceListenerSchema = z.object({
  agentId: z.string(),
  service: z.string(),
  /** What the name comes from: `systemd-unit`, `script`, `executable`, `process-name`, `port`. */
  namedBy: z.string(),
  protocol: z.string(),
  port: z.number(),
  addresses: z.array(z.string()),
  /** Processes; at least 1, also when their pids may not be read. */
  instances: z.number(),
  pids: z.array(z.number()),
  exe: z.string().nullable(),
  sampledAt: isoTimeSchema,
});
export type ServiceListener = z.infer<typeof serviceListenerSchema>;

export const serviceSchema = z.object({
  service: z.string(),
  namedBy: z.string(),
  instances: z.number(),
  ports: z.array(z.object({ port: z.number(), protocol: z.string() })),
  /** The worst of the agents that see it. */
  health: agentHealthSchema,
  agents: z.array(
    z.object({
      agentId: z.string(),
      hostname: z.string(),
      health: agentHealthSchema,
      instances: z.number(),
      pids: z.array(z.number()),
      exe: z.string().nullable(),
      addresses: z.array(z.string()),
      sampledAt: isoTimeSchema,
    }),
  ),
});
export type Service = z.infer<typeof serviceSchema>;

/** Output of coral_list_services. */
export const serviceListSchema = z.object({ total: z.number(), services: z.array(serviceSchema) });
export type ServiceList = z.infer<typeof serviceListSchema>;
