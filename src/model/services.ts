/** The service registry: every service at every agent. */

/** `managed`: named by a person (`coral connect`) or promoted by rule; `stale`: not seen for a while. */
export const serviceStatuses = ["managed", "discovered", "stale"] as const;
export type ServiceStatus = (typeof serviceStatuses)[number];

/** Result of a managed service's health check. */
export const checkHealths = ["healthy", "unhealthy", "unknown"] as const;
export type CheckHealth = (typeof checkHealths)[number];

/** The texts that refer to one service: its id in observed data, its names in telemetry. A single text refers to itself. */
export type ServiceFilter = string | readonly string[];

/** A request in which service names were resolved to the texts in rows. */
export type Resolved<R> = { [K in keyof R]: K extends "service" | "peer" ? ServiceFilter : R[K] };

export interface ServicesRequest {
  /** Only this service. */
  service?: string;
  /** Include every process, which costs more. */
  processes: boolean;
}

/** One port of a service at one agent, or the service itself if it only makes calls. */
export interface ServicePort {
  /** Null for a worker that does not listen. */
  port: number | null;
  protocol: string | null;
  status: ServiceStatus;
  method: string;
  /** Discovery method before promotion; null if it was never promoted. */
  previousMethod: string | null;
  confidence: number;
  firstSeenAt: string;
  lastSeenAt: string;
}

/** One process of a service, identified by agent, pid and start time. */
export interface ServiceProcess {
  pid: number | null;
  startedAt: string | null;
  exe: string | null;
  /** GNU build-id or SHA-256, hex. For an interpreted program, the SHA-256 of its entry script, version and lockfile. */
  build: string | null;
  /** `build-id`, `sha256`, `script`. */
  buildKind: string | null;
  /** Redacted at the agent. */
  commandLine: string | null;
  user: string | null;
  unit: string | null;
  containerId: string | null;
  containerName: string | null;
  /** `tcp 0.0.0.0:8080` */
  listens: string[];
  health: CheckHealth | null;
  healthDetail: string | null;
}

export interface ServiceAtAgent {
  agentId: string;
  /** The label; in the store, the id. */
  service: string;
  /** See service-identity.ts; absent in the store. */
  id?: string | undefined;
  /** What the id was derived from: `python worker.py in /srv/billing`. */
  origin?: string | null | undefined;
  /** Former names, and names that clients use. */
  aliases?: string[] | undefined;
  /** `config`, `manual`, `kubernetes`, `environment`, `systemd-unit`, `container`, `pattern`, `script`, `executable`, `process-name`, `port`. */
  namedBy: string;
  confidence: number;
  status: ServiceStatus;
  ports: ServicePort[];
  /** Number of processes. 0 when the service is gone, else at least 1, even if their pids cannot be read. */
  instances: number;
  pids: number[];
  exe: string | null;
  /** Build of the newest instance. */
  build: string | null;
  health: CheckHealth | null;
  addresses: string[];
  /** It is called from outside; it calls the outside. */
  ingress: boolean;
  egress: boolean;
  firstSeenAt: string;
  lastSeenAt: string;
  /** Set if requested. */
  processes?: ServiceProcess[] | undefined;
}
