/** The container runtime interface of Kubernetes, as containerd and CRI-O serve it on a unix socket. */

import { create, type DescMessage, fromBinary, type MessageInitShape, type MessageShape, toBinary } from "@bufbuild/protobuf";
import { printable } from "../../base/escape-text.ts";
import {
  ContainerStatusRequestSchema,
  ContainerStatusResponseSchema,
  ExecRequestSchema,
  ExecResponseSchema,
  ExecSyncRequestSchema,
  ExecSyncResponseSchema,
  ListContainersRequestSchema,
  ListContainersResponseSchema,
  ListPodSandboxRequestSchema,
  ListPodSandboxResponseSchema,
  type PodSandbox,
  VersionRequestSchema,
  VersionResponseSchema,
} from "../../proto/coral/cri/v1/cri_pb.ts";
import type { ContainerInfo } from "./container-directory.ts";
import { openGrpcSocket } from "./grpc-socket.ts";
import { runtimeTypeOf, shortVersion } from "./runtime-version.ts";

export interface PodFacts {
  sandboxId: string;
  name: string;
  namespace: string;
  uid: string;
  isReady: boolean;
  labels: Readonly<Record<string, string>>;
}

export interface CriClient extends Disposable {
  version(signal: AbortSignal): Promise<{ type: string; version: string }>;
  pods(filter: { uid?: string }, signal: AbortSignal): Promise<PodFacts[]>;
  /** All containers, or those of one pod. */
  containers(filter: { podUid?: string }, signal: AbortSignal): Promise<Omit<ContainerInfo, "isOwn">[]>;
  /** Its first process in the host's pid namespace, and the cgroup that the runtime was given; null if the runtime does not report it. */
  process(containerId: string, signal: AbortSignal): Promise<{ pid: number; cgroupPath: string } | null>;
  /** Where to connect for the streams of a program; connecting starts it. */
  exec(request: MessageInitShape<typeof ExecRequestSchema>, signal: AbortSignal): Promise<string>;
  /** Runs a program to its end and returns all its output, up to 16 MiB. */
  execSync(
    request: { containerId: string; argv: readonly string[]; timeoutMs: number },
    signal: AbortSignal,
  ): Promise<{ stdout: Uint8Array; stderr: Uint8Array; exitCode: number }>;
}

const callTimeoutMs = 5_000;
/** Short, because the agent's start waits for it. */
const versionTimeoutMs = 1_500;
const maxContainers = 10_000;
const running = 1;
const podUidLabel = "io.kubernetes.pod.uid";

export function openCriClient(path: string): CriClient {
  const socket = openGrpcSocket(path);
  const call = async <In extends DescMessage, Out extends DescMessage>(
    method: string,
    [input, output]: readonly [In, Out],
    message: MessageInitShape<In>,
    signal: AbortSignal,
    timeoutMs = callTimeoutMs,
  ): Promise<MessageShape<Out>> => {
    const body = toBinary(input, create(input, message));
    return fromBinary(output, await socket.call({ method: `/runtime.v1.RuntimeService/${method}`, body, timeoutMs, signal }));
  };
  return {
    version: async (signal) => {
      const answer = await call("Version", [VersionRequestSchema, VersionResponseSchema], {}, signal, versionTimeoutMs);
      return { type: runtimeTypeOf(answer.runtimeName), version: shortVersion(answer.runtimeVersion) };
    },
    pods: async ({ uid }, signal) => {
      const filter = uid === undefined ? {} : { filter: { labelSelector: { [podUidLabel]: uid } } };
      const { items } = await call("ListPodSandbox", [ListPodSandboxRequestSchema, ListPodSandboxResponseSchema], filter, signal);
      return items.slice(0, maxContainers).map(podOf);
    },
    containers: async ({ podUid }, signal) => {
      const filter = podUid === undefined ? {} : { filter: { labelSelector: { [podUidLabel]: podUid } } };
      const { containers } = await call("ListContainers", [ListContainersRequestSchema, ListContainersResponseSchema], filter, signal);
      return containers.slice(0, maxContainers).map(({ id, metadata, image, imageRef, labels, state }) => {
        const label = (name: string): string => printable(labels[`io.kubernetes.${name}`] ?? "", 256);
        const podName = label("pod.name");
        return {
          id: printable(id, 128),
          name: printable(metadata?.name ?? "", 256) || label("container.name"),
          pod: podName === "" ? null : { name: podName, namespace: label("pod.namespace"), uid: label("pod.uid") },
          service: "",
          image: printable(image?.image || imageRef, 256),
          runtime: "cri",
          isRunning: state === running,
        };
      });
    },
    process: async (containerId, signal) => {
      const schemas = [ContainerStatusRequestSchema, ContainerStatusResponseSchema] as const;
      const { info } = await call("ContainerStatus", schemas, { containerId, verbose: true }, signal);
      return processIn(info["info"] ?? "");
    },
    exec: async (request, signal) => (await call("Exec", [ExecRequestSchema, ExecResponseSchema], request, signal)).url,
    execSync: async ({ containerId, argv, timeoutMs }, signal) => {
      const request = { containerId, cmd: [...argv], timeout: BigInt(Math.max(1, Math.ceil(timeoutMs / 1_000))) };
      return await call("ExecSync", [ExecSyncRequestSchema, ExecSyncResponseSchema], request, signal, timeoutMs + callTimeoutMs);
    },
    [Symbol.dispose]: () => socket[Symbol.dispose](),
  };
}

function podOf({ id, metadata, state, labels }: PodSandbox): PodFacts {
  return {
    sandboxId: printable(id, 128),
    name: printable(metadata?.name ?? "", 256),
    namespace: printable(metadata?.namespace ?? "", 256),
    uid: printable(metadata?.uid ?? "", 64),
    isReady: state === 0,
    labels,
  };
}

/** containerd and CRI-O both put JSON with `pid` under `info`, with the OCI spec, which contains the cgroup. */
export function processIn(info: string): { pid: number; cgroupPath: string } | null {
  try {
    const { pid, runtimeSpec } = JSON.parse(info) as { pid?: unknown; runtimeSpec?: { linux?: { cgroupsPath?: unknown } } };
    if (typeof pid !== "number" || !Number.isSafeInteger(pid) || pid <= 0) return null;
    const path = runtimeSpec?.linux?.cgroupsPath;
    return { pid, cgroupPath: typeof path === "string" ? path.slice(0, 512) : "" };
  } catch {
    // Another kind of runtime does not report it.
    return null;
  }
}
