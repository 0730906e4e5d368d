import * as z from "zod";
import { checkHealths, type ServicePort, type ServiceProcess, serviceStatuses } from "../../model/services.ts";
import { agentHealthSchema, isoTimeSchema } from "./agent.ts";

export const serviceStatusSchema = z.enum(serviceStatuses);

/** How a service was discovered. */
export const discoveryMethods = ["manual", "listening_socket", "connection_tracking", "traffic_inspection", "kubernetes_api"] as const;

export const checkHealthSchema = z.enum(checkHealths);

/** One port of a service at one agent; without a port for a service that only opens connections. */
export const servicePortSchema = z.object({
  port: z.number().nullable(),
  protocol: z.string().nullable(),
  status: serviceStatusSchema,
  method: z.string(),
  previousMethod: z.string().nullable(),
  confidence: z.number(),
  firstSeenAt: isoTimeSchema,
  lastSeenAt: isoTimeSchema,
}) satisfies z.ZodType<ServicePort>;

/** One process of a service, identified by agent, pid and start time. */
export const serviceProcessSchema = z.object({
  pid: z.number().nullable(),
  startedAt: isoTimeSchema.nullable(),
  exe: z.string().nullable(),
  build: z.string().nullable(),
  buildKind: z.string().nullable(),
  commandLine: z.string().nullable(),
  user: z.string().nullable(),
  unit: z.string().nullable(),
  containerId: z.string().nullable(),
  containerName: z.string().nullable(),
  listens: z.array(z.string()),
  health: checkHealthSchema.nullable(),
  healthDetail: z.string().nullable(),
}) satisfies z.ZodType<ServiceProcess>;

export const serviceSchema = z.object({
  /** Label: the name, with a suffix where several services share it. */
  service: z.string(),
  /** Stable when the name changes. */
  id: z.string(),
  /** Origin that the id is derived from; null when only the name is known. */
  origin: z.string().nullable(),
  /** Former names, and names that clients use; commands accept them. */
  aliases: z.array(z.string()),
  /** `managed` when any instance is; `stale` when all are. */
  status: serviceStatusSchema,
  method: z.string(),
  previousMethod: z.string().nullable(),
  namedBy: z.string(),
  /** Confidence in the name, 0..1; the highest of its instances. */
  confidence: z.number(),
  instances: z.number(),
  ports: z.array(z.object({ port: z.number(), protocol: z.string() })),
  ingress: z.boolean(),
  egress: z.boolean(),
  /** Worst health of the agents that see it. */
  health: agentHealthSchema,
  /** Worst result of its health checks; null without checks. */
  check: checkHealthSchema.nullable(),
  firstSeenAt: isoTimeSchema,
  lastSeenAt: isoTimeSchema,
  agents: z.array(
    z.object({
      agentId: z.string(),
      hostname: z.string(),
      health: agentHealthSchema,
      status: serviceStatusSchema,
      check: checkHealthSchema.nullable(),
      instances: z.number(),
      pids: z.array(z.number()),
      exe: z.string().nullable(),
      build: z.string().nullable(),
      addresses: z.array(z.string()),
      ports: z.array(servicePortSchema),
      ingress: z.boolean(),
      egress: z.boolean(),
      sampledAt: isoTimeSchema,
      processes: z.array(serviceProcessSchema).optional(),
    }),
  ),
});
export type Service = z.infer<typeof serviceSchema>;

/** Output of coral_list_services. */
export const serviceListSchema = z.object({
  total: z.number(),
  managed: z.number(),
  discovered: z.number(),
  stale: z.number(),
  services: z.array(serviceSchema),
});
export type ServiceList = z.infer<typeof serviceListSchema>;
