import * as z from "zod";
import { checkHealths, type ServicePort, type ServiceProcess, serviceStatuses } from "../../model/services.ts";
import { agentHealthSchema, isoTimeSchema } from "./agent.ts";

export const serviceStatusSchema = z.enum(serviceStatuses);

/** How a service came to be known. */
export const discoveryMethods = ["manual", "listening_socket", "connection_tracking", "traffic_inspection", "kubernetes_api"] as const;

export const checkHealthSchema = z.enum(checkHealths);

/** One port of a service at one agent, or the service there when it only calls out. */
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

/** One process of a service, known by agent, pid and start time. */
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
  /** Its label: a name, with what tells it apart from namesakes. */
  service: z.string(),
  /** Stays when the name changes. */
  id: z.string(),
  /** What the id was made from; null when only its name is known. */
  origin: z.string().nullable(),
  /** Former names, and names that clients use; commands understand these, too. */
  aliases: z.array(z.string()),
  /** `managed` when it is anywhere, `stale` when it is everywhere. */
  status: serviceStatusSchema,
  method: z.string(),
  previousMethod: z.string().nullable(),
  namedBy: z.string(),
  /** 0..1: how sure the name is; the best of its places. */
  confidence: z.number(),
  instances: z.number(),
  ports: z.array(z.object({ port: z.number(), protocol: z.string() })),
  ingress: z.boolean(),
  egress: z.boolean(),
  /** The worst of the agents that see it. */
  health: agentHealthSchema,
  /** The worst answer of its health checks; null when it has none. */
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
