/** The OTLP listeners: gRPC (4317) and HTTP (4318). They share one handler and one budget. */

import type { ByteBudget } from "../../base/byte-budget.ts";
import type { Logger } from "../../base/log.ts";
import { ResourceStack } from "../../base/resource-stack.ts";
import { type OtlpLimits, type OtlpServer, startOtlpGrpcServer } from "./otlp-grpc-server.ts";
import { startOtlpHttpServer } from "./otlp-http-server.ts";
import type { OtlpAuthorize, OtlpHandler } from "./otlp-messages.ts";

/** Where one server listens. */
export interface OtlpListen {
  host: string;
  /** 0 picks a free one. */
  port: number;
  /** How many of the following ports to try when the port is in use. */
  portSearch: number;
}

export interface OtlpServersOptions {
  /** Undefined: this listener is disabled. */
  grpc: OtlpListen | undefined;
  http: OtlpListen | undefined;
  handler: OtlpHandler;
  /** Absent: every client that can reach a port may send. */
  authorize?: OtlpAuthorize;
  limits: OtlpLimits;
  budget: ByteBudget;
  log: Logger;
}

/** Undefined for a disabled listener. */
export interface OtlpServers extends AsyncDisposable {
  grpc: OtlpServer | undefined;
  http: OtlpServer | undefined;
}

/** If one of them cannot start, neither runs. */
export function startOtlpServers(options: OtlpServersOptions): Promise<OtlpServers> {
  const { handler, authorize, limits, budget, log } = options;
  const common = { handler, ...(authorize && { authorize }), limits, budget, log };
  return ResourceStack.assemble(async (stack) => {
    const grpc = options.grpc && stack.use(await startOtlpGrpcServer({ ...options.grpc, ...common }));
    const http = options.http && stack.use(await startOtlpHttpServer({ ...options.http, ...common }));
    return { grpc, http, [Symbol.asyncDispose]: () => stack[Symbol.asyncDispose]() };
  });
}
