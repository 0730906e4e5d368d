/** The containers that this agent can see and target, of any runtime. */

import { CoralError } from "../../base/errors.ts";
import { processCgroup } from "../cgroups/process-cgroup.ts";
import { createHostRoot, type HostRoot } from "../files/host-root.ts";
import { type FoundRuntime, findRuntime } from "./find-runtime.ts";
import { type OwnPlace, readOwnPlace } from "./own-place.ts";
import { listProcessContainers } from "./process-containers.ts";

export interface ContainerInfo {
  /** In full. */
  id: string;
  /** The container's name in its pod, or Docker's name. Empty when unknown. */
  name: string;
  pod: { name: string; namespace: string; uid: string } | null;
  /** `com.docker.compose.service` and similar labels; empty without one. */
  service: string;
  image: string;
  /** containerd, crio, docker, podman; `processes` when only its processes are visible. */
  runtime: string;
  isRunning: boolean;
  /** The container that this agent runs in. */
  isOwn: boolean;
}

export interface ContainerExecOptions {
  argv: readonly string[];
  /** Absent: no terminal, and separate stdout and stderr. */
  terminal?: { columns: number; rows: number };
  /** Whether anything will be written to it. */
  hasInput: boolean;
  signal: AbortSignal;
}

/** A program that the runtime started inside a container. */
export interface ContainerExec extends AsyncDisposable {
  /** Ends its standard input. */
  endInput(): void;
  /** False: wait for `drained` before writing more. */
  write(data: Uint8Array): boolean;
  drained(): Promise<void>;
  output(): AsyncIterable<{ stream: "stdout" | "stderr"; data: Uint8Array }>;
  /** Only with a terminal. */
  resize(columns: number, rows: number): void;
  /** After all output; rejects when the connection was lost. */
  readonly exitCode: Promise<number>;
}

export interface ContainerDirectory {
  /** Containers in this agent's scope: a sidecar's own pod, everything elsewhere. Running ones first, then by name. Throws `unavailable` when the runtime does not respond. */
  list(signal: AbortSignal): Promise<ContainerInfo[]>;
  /**
   * Finds a container by id, unique id prefix (at least 8 characters), name, or `pod/name`. Throws `not-found` with the existing names, and `usage`
   * with the candidates if several running ones match.
   */
  find(nameOrId: string, signal: AbortSignal): Promise<ContainerInfo>;
  /**
   * The container's first process, by its pid in this agent's namespace, verified to be in the container. Null if it is not visible here (another
   * pid namespace); then only `exec` reaches it.
   */
  pidOf(container: ContainerInfo, signal: AbortSignal): Promise<number | null>;
  /** The container of a process; null if it is in none that is visible here. Throws as `list` does. */
  of(pid: number, signal: AbortSignal): Promise<ContainerInfo | null>;
  /** Starts a program through the runtime (CRI Exec, Docker exec). Throws `unsupported` without a runtime. */
  exec(container: ContainerInfo, options: ContainerExecOptions): Promise<ContainerExec>;
}

export interface ContainerDirectoryOptions {
  /** Default: the machine's `/`. */
  root?: HostRoot;
  env: Readonly<Record<string, string | undefined>>;
  /** Whether nothing beyond the agent's own pod may be seen: a sidecar's. */
  podScope: () => boolean;
  /** Monotonic; default: the process's own. */
  nowMs?: () => number;
}

/** How long a runtime that responded is used without another search. */
const runtimeKeptMs = 30_000;
const shownMax = 12;
const leastPrefix = 8;

export function createContainerDirectory(options: ContainerDirectoryOptions): ContainerDirectory {
  const { root = createHostRoot(), env, nowMs = () => performance.now() } = options;
  let known: { place: OwnPlace; runtime: FoundRuntime | null; atMs: number } | undefined;
  const look = async (signal: AbortSignal): Promise<{ place: OwnPlace; runtime: FoundRuntime | null }> => {
    if (known && nowMs() - known.atMs < runtimeKeptMs) return known;
    const { runtime } = await findRuntime(root, env, signal);
    known = { place: known?.place ?? readOwnPlace(root, env), runtime, atMs: nowMs() };
    return known;
  };

  const list = async (signal: AbortSignal): Promise<ContainerInfo[]> => {
    const { place, runtime } = await look(signal);
    if (runtime === null)
      return listProcessContainers(root, place)
        .map(({ pid: _pid, ...container }) => container)
        .sort(byUse);
    try {
      const { listRuntimeContainers } = await import("./runtime-containers.ts");
      const podScope = options.podScope();
      const listed = await listRuntimeContainers({ root, place, runtime, podScope }, signal);
      const ids = new Set(listed.map(({ id }) => id));
      // A machine may have two runtimes, such as Docker and a containerd that serves CRI.
      const others = podScope || !place.isHostPid ? [] : listProcessContainers(root, place).filter(({ id }) => !ids.has(id));
      return [...listed, ...others.map(({ pid: _pid, ...container }) => container)].sort(byUse);
    } catch (error) {
      // The runtime may have been restarted or removed: look it up again next time.
      known = undefined;
      throw error;
    }
  };

  return {
    list,
    find: async (nameOrId, signal) => pick(await list(signal), nameOrId),
    pidOf: async (container, signal) => {
      const { place, runtime } = await look(signal);
      if (runtime !== null && container.runtime !== "processes") {
        const { runtimeProcess } = await import("./runtime-containers.ts");
        const reported = await runtimeProcess({ root, runtime }, container.id, signal);
        if (reported !== null && isIn(root, reported.pid, container.id, reported.cgroupPath)) return reported.pid;
      }
      // The runtime reports pids of the host's namespace; here the process may have another pid, or none.
      return listProcessContainers(root, place).find(({ id }) => id === container.id)?.pid ?? null;
    },
    of: async (pid, signal) => {
      const cgroup = processCgroup(root.readText(`/proc/${pid}/cgroup`) ?? "");
      return cgroup === null ? null : ((await list(signal)).find(({ id }) => cgroup.includes(id)) ?? null);
    },
    exec: async (container, exec) => {
      const { runtime } = await look(exec.signal);
      if (runtime === null || container.runtime === "processes") throw noRuntimeFor(container);
      const { execInContainer } = await import("./container-exec.ts");
      return await execInContainer({ path: root.resolve(runtime.socketPath), api: runtime.api, containerId: container.id }, exec);
    },
  };
}

function noRuntimeFor({ name, id }: ContainerInfo): CoralError {
  return new CoralError({
    code: "unsupported",
    message: `Cannot run a program in container "${name || id}": no container runtime on this host responds`,
  });
}

function byUse(a: ContainerInfo, b: ContainerInfo): number {
  return Number(b.isRunning) - Number(a.isRunning) || a.name.localeCompare(b.name) || a.id.localeCompare(b.id);
}

/** The display name: `pod/name`, or the name alone outside of pods. */
export function containerTitle({ name, pod, id }: ContainerInfo): string {
  const own = name || id.slice(0, 12);
  return pod === null ? own : `${pod.name}/${own}`;
}

function pick(containers: readonly ContainerInfo[], text: string): ContainerInfo {
  // A container without facts has no name, so it cannot be the requested one.
  if (text === "") throw new CoralError({ code: "usage", message: "Cannot choose a container: its name is empty" });
  const fits: ((container: ContainerInfo) => boolean)[] = [
    ({ id }) => id === text,
    (container) => container.pod !== null && containerTitle(container) === text,
    ({ name }) => name === text,
    ({ service }) => service === text,
    ({ id }) => text.length >= leastPrefix && id.startsWith(text),
  ];
  for (const fit of fits) {
    const found = containers.filter(fit);
    const running = found.filter(({ isRunning }) => isRunning);
    const [only, second] = running.length > 0 ? running : found;
    if (only === undefined) continue;
    if (second === undefined) return only;
    const names = (running.length > 0 ? running : found)
      .slice(0, shownMax)
      .map((container) => `${containerTitle(container)} (${container.id.slice(0, 12)})`);
    throw new CoralError({ code: "usage", message: `ambiguous container "${text}": ${names.join(", ")} match; use an id or pod/name` });
  }
  const names = containers
    .filter(({ isRunning }) => isRunning)
    .slice(0, shownMax)
    .map(containerTitle);
  const there = names.length === 0 ? "none is visible here" : `there are ${names.join(", ")}`;
  throw new CoralError({ code: "not-found", message: `Cannot find container "${text}": ${there}` });
}

/** Verifies the pid: it may have been reused, or belong to another process in this namespace. */
function isIn(root: HostRoot, pid: number, id: string, cgroupPath: string): boolean {
  const cgroup = processCgroup(root.readText(`/proc/${pid}/cgroup`) ?? "");
  if (cgroup === null) return false;
  return cgroup.includes(id) || (cgroupPath.length > 1 && cgroupPath.startsWith("/") && cgroup.endsWith(cgroupPath));
}
