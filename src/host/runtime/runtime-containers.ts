/** Lists the containers of a runtime. Loaded only if a runtime responds. */

import type { HostRoot } from "../files/host-root.ts";
import type { ContainerInfo } from "./container-directory.ts";
import { openCriClient } from "./cri-client.ts";
import { openDockerClient } from "./docker-client.ts";
import type { FoundRuntime } from "./find-runtime.ts";
import type { OwnPlace } from "./own-place.ts";

export interface RuntimeScope {
  root: HostRoot;
  place: Pick<OwnPlace, "pod" | "containerId">;
  runtime: FoundRuntime;
  /** Only containers of the agent's own pod. */
  podScope: boolean;
}

export async function listRuntimeContainers(
  { root, place, runtime, podScope }: RuntimeScope,
  signal: AbortSignal,
): Promise<ContainerInfo[]> {
  const { pod } = place;
  const path = root.resolve(runtime.socketPath);
  const isOurs = (container: Omit<ContainerInfo, "isOwn">): boolean => {
    if (!podScope) return true;
    if (pod === null || container.pod === null) return false;
    // A pod that was deleted and recreated under the same name has another uid.
    return pod.uid === "" ? container.pod.name === pod.name && container.pod.namespace === pod.namespace : container.pod.uid === pod.uid;
  };
  const isOwn = (container: Omit<ContainerInfo, "isOwn">): boolean => {
    if (place.containerId !== "") return container.id === place.containerId;
    return pod !== null && pod.container !== "" && container.name === pod.container && container.pod?.uid === pod.uid;
  };
  const list = async (): Promise<Omit<ContainerInfo, "isOwn">[]> => {
    if (runtime.api === "docker") return await openDockerClient(path).containers(signal);
    using client = openCriClient(path);
    return await client.containers(podScope && pod !== null && pod.uid !== "" ? { podUid: pod.uid } : {}, signal);
  };
  return (await list()).filter(isOurs).map((container) => ({ ...container, runtime: runtime.type, isOwn: isOwn(container) }));
}

/** Pid of its first process in the host's namespace. */
export async function runtimeProcess(
  { root, runtime }: Pick<RuntimeScope, "root" | "runtime">,
  containerId: string,
  signal: AbortSignal,
): Promise<{ pid: number; cgroupPath: string } | null> {
  const path = root.resolve(runtime.socketPath);
  if (runtime.api === "docker") return await openDockerClient(path).process(containerId, signal);
  using client = openCriClient(path);
  return await client.process(containerId, signal);
}
