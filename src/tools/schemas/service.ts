import * as z from "zod";
import { agentHealthSchema, isoTimeSchema } from "./agent.ts";

/** `managed` was named by a person (`coral connect`) or promoted by rule, `stale` was not seen for a while. */
export const serviceStatusSchema = z.enum(["managed", "discovered", "stale"]);
export type ServiceStatus = z.infer<typeof serviceStatusSchema>;

/** How a service came to be known. */
export const discoveryMethods = ["manual", "listening_socket", "connection_tracking", "traffic_inspection", "kubernetes_api"] as const;

/** Answer of the health check of a managed service. */
export const checkHealthSchema = z.enum(["healthy", "unhealthy", "unknown"]);

/** One port of a service at one agent, or the service there when it only calls out. */
export const servicePortSchema = z.object({
  /** Null for a worker that listens nowhere. */
  port: z.number().nullable(),
  protocol: z.string().nullable(),
  status: serviceStatusSchema,
  method: z.string(),
  /** Before it was promoted; null when it never was. */
  previousMethod: z.string().nullable(),
  confidence: z.number(),
  firstSeenAt: isoTimeSchema,
  lastSeenAt: isoTimeSchema,
});
export type ServicePort = z.infer<typeof servicePortSchema>;

/** One process of a service, known by agent, pid and start time. */
export const serviceProcessSchema = z.object({
  pid: z.number().nullable(),
  startedAt: isoTimeSchema.nullable(),
  exe: z.string().nullable(),
  /** GNU build-id or SHA-256, hex. */
  build: z.string().nullable(),
  buildKind: z.string().nullable(),
  /** Redacted at the agent. */
  commandLine: z.string().nullable(),
  user: z.string().nullable(),
  unit: z.string().nullable(),
  containerId: z.string().nullable(),
  containerName: z.string().nullable(),
  /** `tcp 0.0.0.0:8080` */
  listens: z.array(z.string()),
  health: checkHealthSchema.nullable(),
  healthDetail: z.string().nullable(),
});
export type ServiceProcess = z.infer<typeof serviceProcessSchema>;

/** One service at one agent: what the colony's registry holds. */
export const serviceAtAgentSchema = z.object({
  agentId: z.string(),
  service: z.string(),
  /** `config`, `manual`, `kubernetes`, `environment`, `systemd-unit`, `container`, `pattern`, `script`, `executable`, `process-name`, `port`. */
  namedBy: z.string(),
  confidence: z.number(),
  status: serviceStatusSchema,
  ports: z.array(servicePortSchema),
  /** Processes; at least 1, also when their pids may not be read. */
  instances: z.number(),
  pids: z.array(z.number()),
  exe: z.string().nullable(),
  /** Of the newest instance. */
  build: z.string().nullable(),
  health: checkHealthSchema.nullable(),
  addresses: z.array(z.string()),
  /** Someone outside calls it; it calls someone outside. */
  ingress: z.boolean(),
  egress: z.boolean(),
  firstSeenAt: isoTimeSchema,
  lastSeenAt: isoTimeSchema,
  /** Only when processes were asked for. */
  processes: z.array(serviceProcessSchema).optional(),
});
export type ServiceAtAgent = z.infer<typeof serviceAtAgentSchema>;

export const serviceSchema = z.object({
  service: z.string(),
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
