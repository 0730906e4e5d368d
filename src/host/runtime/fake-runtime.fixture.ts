/** Fake container runtimes with scripted responses, on a unix socket inside a host tree. */

import { mkdirSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { createServer, type ServerHttp2Stream } from "node:http2";
import { dirname, join } from "node:path";
import { create, type DescMessage, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import {
  ContainerStatusResponseSchema,
  ListContainersResponseSchema,
  ListPodSandboxResponseSchema,
  VersionResponseSchema,
} from "../../proto/coral/cri/v1/cri_pb.ts";

export interface FakeCri {
  name: string;
  version: string;
  pods?: MessageInitShape<typeof ListPodSandboxResponseSchema>["items"];
  containers?: MessageInitShape<typeof ListContainersResponseSchema>["containers"];
  /** Container id → process id. */
  pids?: Readonly<Record<string, number>>;
  /** Fails every call with this gRPC status. */
  status?: number;
  /** Never responds. */
  isSilent?: boolean;
}

export interface FakeServer extends AsyncDisposable {
  /** Names of the methods or routes that were called. */
  calls: string[];
}

/** Ignores filters: lists exactly what the test defines. */
export async function serveCri(root: string, path: string, fake: FakeCri): Promise<FakeServer> {
  const calls: string[] = [];
  const respond = (method: string): Uint8Array | undefined => {
    const encode = <Schema extends DescMessage>(schema: Schema, message: MessageInitShape<Schema>): Uint8Array =>
      toBinary(schema, create(schema, message));
    switch (method) {
      case "Version":
        return encode(VersionResponseSchema, {
          version: "0.1.0",
          runtimeName: fake.name,
          runtimeVersion: fake.version,
          runtimeApiVersion: "v1",
        });
      case "ListPodSandbox":
        return encode(ListPodSandboxResponseSchema, { items: fake.pods ?? [] });
      case "ListContainers":
        return encode(ListContainersResponseSchema, { containers: fake.containers ?? [] });
      case "ContainerStatus":
        return encode(ContainerStatusResponseSchema, { info: { info: JSON.stringify({ pid: Object.values(fake.pids ?? {})[0] }) } });
      default:
        return undefined;
    }
  };
  const server = createServer();
  server.on("stream", (stream: ServerHttp2Stream, headers) => {
    const method = String(headers[":path"]).split("/").at(-1) ?? "";
    calls.push(method);
    if (fake.isSilent) return;
    const body = fake.status === undefined ? respond(method) : undefined;
    stream.on("error", () => undefined);
    if (body === undefined) {
      stream.respond(
        { ":status": 200, "content-type": "application/grpc", "grpc-status": String(fake.status ?? 12), "grpc-message": "not%20here" },
        { endStream: true },
      );
      return;
    }
    stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
    stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
    const frame = Buffer.alloc(5 + body.length);
    frame.writeUInt32BE(body.length, 1);
    frame.set(body, 5);
    stream.end(frame);
  });
  return await listen(server, root, path, calls);
}

/** `routes`: path with query → JSON. Everything else is 404. */
export async function serveDocker(root: string, path: string, routes: Readonly<Record<string, unknown>>): Promise<FakeServer> {
  const calls: string[] = [];
  const server = createHttpServer((request, response) => {
    const url = request.url ?? "";
    calls.push(url);
    const value = routes[url];
    response.writeHead(value === undefined ? 404 : 200, { "content-type": "application/json" });
    response.end(JSON.stringify(value ?? { message: "page not found" }));
  });
  return await listen(server, root, path, calls);
}

async function listen(
  server: ReturnType<typeof createHttpServer> | ReturnType<typeof createServer>,
  root: string,
  path: string,
  calls: string[],
): Promise<FakeServer> {
  const file = join(root, path);
  mkdirSync(dirname(file), { recursive: true });
  const sessions = new Set<{ destroy: () => void }>();
  server.on("session", (session: { destroy: () => void }) => sessions.add(session));
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(file, resolve);
  });
  return {
    calls,
    [Symbol.asyncDispose]: async () => {
      for (const session of sessions) session.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
