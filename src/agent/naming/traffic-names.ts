/** What traffic tells about a service: the host of its HTTP requests, the name of its gRPC service. */

export type TrafficSource = "http_host" | "grpc_service";

/** Filled by whatever looks into traffic; asked for each instance, which is known by pid and start time. */
export interface TrafficNames {
  nameOf(instance: { pid: number; startTicks: number; port: number | null }, sources: readonly TrafficSource[]): string | undefined;
}

/** Nobody looks. */
export const noTrafficNames: TrafficNames = { nameOf: () => undefined };
