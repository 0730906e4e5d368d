/** Finds a container runtime that responds: probes the usual sockets for their version. */

import { CoralError } from "../../base/errors.ts";
import type { HostRoot } from "../files/host-root.ts";

export interface FoundRuntime {
  /** On the host. */
  socketPath: string;
  /** containerd, crio, docker, podman */
  type: string;
  /** Empty if unknown. */
  version: string;
  api: "cri" | "docker";
}

export interface RuntimeSearch {
  runtime: FoundRuntime | null;
  /** Sockets that exist but cannot be used, with the reason; for messages. */
  problems: string[];
}

const criSockets = [
  "/run/containerd/containerd.sock",
  "/var/run/containerd/containerd.sock",
  "/run/crio/crio.sock",
  "/var/run/crio/crio.sock",
  "/run/k3s/containerd/containerd.sock",
  "/var/snap/microk8s/common/run/containerd.sock",
  "/run/cri-dockerd.sock",
  "/var/run/cri-dockerd.sock",
];
const dockerSockets = ["/run/docker.sock", "/var/run/docker.sock", "/run/podman/podman.sock"];

/** Never rejects unless aborted. Loads no client where there is no socket. */
export async function findRuntime(
  root: HostRoot,
  env: Readonly<Record<string, string | undefined>>,
  signal: AbortSignal,
): Promise<RuntimeSearch> {
  const problems: string[] = [];
  const configured = /^unix:\/\/(\/.+)$/.exec(env["CONTAINER_RUNTIME_ENDPOINT"] ?? "")?.[1];
  const docker = /^unix:\/\/(\/.+)$/.exec(env["DOCKER_HOST"] ?? "")?.[1];
  const places: [path: string, api: FoundRuntime["api"]][] = [
    ...(configured === undefined ? [] : [[configured, "cri"] as [string, "cri"]]),
    ...criSockets.map((path): [string, "cri"] => [path, "cri"]),
    ...(docker === undefined ? [] : [[docker, "docker"] as [string, "docker"]]),
    ...dockerSockets.map((path): [string, "docker"] => [path, "docker"]),
  ];
  const seen = new Set<string>();
  for (const [path, api] of places) {
    const facts = root.stat(path);
    // `/var/run` is a link to `/run` nearly everywhere: probe one socket once.
    const key = facts === null ? path : `${facts.device}:${facts.inode}`;
    if (facts === null || seen.has(key)) continue;
    seen.add(key);
    try {
      return { runtime: { socketPath: path, api, ...(await readVersion(root.resolve(path), api, signal)) }, problems };
    } catch (error) {
      signal.throwIfAborted();
      // Docker's own containerd serves no CRI, and other sockets may be closed to us: try the next one.
      problems.push(CoralError.from(error).message);
    }
  }
  return { runtime: null, problems };
}

async function readVersion(path: string, api: FoundRuntime["api"], signal: AbortSignal): Promise<{ type: string; version: string }> {
  if (api === "docker") {
    const { openDockerClient } = await import("./docker-client.ts");
    return await openDockerClient(path).version(signal);
  }
  const { openCriClient } = await import("./cri-client.ts");
  using client = openCriClient(path);
  return await client.version(signal);
}
