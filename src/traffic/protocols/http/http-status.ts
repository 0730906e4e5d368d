/** Which statuses of HTTP and gRPC are errors, and at which end. */

import type { TrafficRole } from "../../core/messages.ts";

/** 5xx is an error at both ends; 4xx only for the client. */
export function isHttpError(status: number, role: TrafficRole): boolean {
  return status >= (role === "server" ? 500 : 400);
}

/** Unknown, deadline exceeded, unimplemented, internal, unavailable, data loss: faults of the server, not of the request. */
const serverFaults = new Set([2, 4, 12, 13, 14, 15]);

export function isGrpcError(code: number, role: TrafficRole): boolean {
  return role === "server" ? serverFaults.has(code) : code !== 0;
}

/** How a gRPC client maps a response without grpc-status. */
export function grpcCodeOfHttp(status: number): number {
  switch (status) {
    case 400:
      return 13;
    case 401:
      return 16;
    case 403:
      return 7;
    case 404:
      return 12;
    case 429:
    case 502:
    case 503:
    case 504:
      return 14;
    default:
      return 2;
  }
}

/** How a gRPC client maps a reset stream, by the error code of HTTP/2. */
export function grpcCodeOfReset(errorCode: number): number {
  switch (errorCode) {
    case 7:
      return 14;
    case 8:
      return 1;
    case 11:
      return 8;
    case 12:
      return 7;
    default:
      return 13;
  }
}

const grpcTimeoutForm = /^(\d{1,8})([HMSmun])$/;
const nanosecondsOf: Readonly<Record<string, number>> = { H: 3_600e9, M: 60e9, S: 1e9, m: 1e6, u: 1e3, n: 1 };

/** The deadline of a gRPC call from its header `grpc-timeout`; null if it is invalid. */
export function grpcTimeoutNs(value: string): number | null {
  const [, count, unit] = grpcTimeoutForm.exec(value) ?? [];
  const unitNs = nanosecondsOf[unit ?? ""];
  return unitNs === undefined ? null : Number(count) * unitNs;
}
