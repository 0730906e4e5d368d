/** The Docker engine's API on its unix socket; Podman serves the same. */

import { request } from "node:http";
import { CoralError } from "../../base/errors.ts";
import { printable } from "../../base/escape-text.ts";
import type { ContainerInfo } from "./container-directory.ts";
import { socketError } from "./grpc-socket.ts";
import { shortVersion } from "./runtime-version.ts";

export interface DockerClient {
  version(signal: AbortSignal): Promise<{ type: string; version: string }>;
  containers(signal: AbortSignal): Promise<Omit<ContainerInfo, "isOwn">[]>;
  process(containerId: string, signal: AbortSignal): Promise<{ pid: number; cgroupPath: string } | null>;
  post(path: string, body: unknown, signal: AbortSignal): Promise<unknown>;
  get(path: string, signal: AbortSignal): Promise<unknown>;
}

const timeoutMs = 5_000;
const maxResponseBytes = 16 * 1024 * 1024;
const maxContainers = 10_000;

export function openDockerClient(path: string): DockerClient {
  const call = (method: "GET" | "POST", route: string, signal: AbortSignal, body?: unknown): Promise<unknown> =>
    requestJson({ path, method, route, body, signal });
  return {
    version: async (signal) => {
      const response = objectOf(await call("GET", "/version", signal));
      const components = Array.isArray(response["Components"]) ? response["Components"].map((part) => textOf(objectOf(part)["Name"])) : [];
      const isPodman = components.some((name) => /podman/i.test(name));
      const version = shortVersion(textOf(response["Version"]));
      if (version === "") throw new CoralError({ code: "unsupported", message: `Cannot use ${path}: no Docker engine responds there` });
      return { type: isPodman ? "podman" : "docker", version };
    },
    containers: async (signal) => {
      const response = await call("GET", "/containers/json?all=1", signal);
      return (Array.isArray(response) ? response : []).slice(0, maxContainers).map(containerOf);
    },
    process: async (containerId, signal) => {
      const { Pid: pid, CgroupParent: _parent } = objectOf(
        objectOf(await call("GET", `/containers/${encodeURIComponent(containerId)}/json`, signal))["State"],
      );
      return typeof pid === "number" && Number.isSafeInteger(pid) && pid > 0 ? { pid, cgroupPath: "" } : null;
    },
    post: (route, body, signal) => call("POST", route, signal, body),
    get: (route, signal) => call("GET", route, signal),
  };
}

function containerOf(value: unknown): Omit<ContainerInfo, "isOwn"> {
  const facts = objectOf(value);
  const labels = objectOf(facts["Labels"]);
  const names = Array.isArray(facts["Names"]) ? facts["Names"] : [];
  const podName = textOf(labels["io.kubernetes.pod.name"]);
  return {
    id: textOf(facts["Id"]),
    name: textOf(labels["io.kubernetes.container.name"]) || textOf(names[0]).replace(/^\//, ""),
    pod:
      podName === ""
        ? null
        : { name: podName, namespace: textOf(labels["io.kubernetes.pod.namespace"]), uid: textOf(labels["io.kubernetes.pod.uid"]) },
    service:
      textOf(labels["com.docker.compose.service"]) ||
      textOf(labels["io.podman.compose.service"]) ||
      textOf(labels["com.docker.swarm.service.name"]),
    image: textOf(facts["Image"]),
    runtime: "docker",
    isRunning: facts["State"] === "running",
  };
}

function objectOf(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

function textOf(value: unknown): string {
  return typeof value === "string" ? printable(value, 256) : "";
}

interface JsonRequest {
  path: string;
  method: "GET" | "POST";
  route: string;
  body: unknown;
  signal: AbortSignal;
}

function requestJson({ path, method, route, body, signal }: JsonRequest): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
    const text = body === undefined ? undefined : JSON.stringify(body);
    const headers = {
      host: "docker",
      ...(text === undefined ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(text) }),
    };
    const fail = (error: unknown): void => reject(signal.aborted ? signal.reason : socketError(path, limit.aborted ? limit.reason : error));
    const outgoing = request({ socketPath: path, method, path: route, headers, signal: limit, agent: false }, (response) => {
      const pieces: Buffer[] = [];
      let sizeBytes = 0;
      response.on("error", fail);
      response.on("data", (piece: Buffer) => {
        sizeBytes += piece.length;
        if (sizeBytes > maxResponseBytes)
          outgoing.destroy(new CoralError({ code: "exhausted", message: `the response exceeds ${maxResponseBytes} bytes` }));
        else pieces.push(piece);
      });
      response.on("end", () => {
        try {
          resolve(parseResponse(path, response.statusCode ?? 0, Buffer.concat(pieces).toString("utf8")));
        } catch (error) {
          reject(error);
        }
      });
    });
    outgoing.on("error", fail);
    outgoing.end(text);
  });
}

function parseResponse(path: string, status: number, text: string): unknown {
  let value: unknown;
  try {
    value = text === "" ? null : JSON.parse(text);
  } catch (error) {
    throw new CoralError({
      code: "invalid",
      message: `Cannot read the response of the container runtime at ${path}: not valid JSON`,
      cause: error,
    });
  }
  if (status >= 200 && status < 300) return value;
  const reason = textOf(objectOf(value)["message"]) || `HTTP ${status}`;
  const code = status === 404 ? "not-found" : status === 403 ? "not-permitted" : "unavailable";
  throw new CoralError({ code, message: `Cannot query the container runtime at ${path}: ${reason}` });
}
