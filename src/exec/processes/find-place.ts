/** Resolves where a command runs: on the host, in the namespaces of a service's process, or in a container. Never guesses a process. */

import { CoralError } from "../../base/errors.ts";
import { type ContainerDirectory, type ContainerInfo, containerTitle, type ProcessView, viewProcess } from "../../host/index.ts";
import { createRootFiles, type RootFiles, unseenFiles } from "../policy/root-files.ts";

/** The target as the caller named it. */
export interface PlaceWanted {
  kind: "host" | "service" | "container";
  service: string;
  container: string;
  /** 0: not specified. */
  pid: number;
}

/** The target, resolved to namespaces and files. */
export interface Place {
  /** Text for screens and audits. */
  where: string;
  files: RootFiles;
  /** The process whose namespaces are entered; undefined: none. */
  target: ProcessView | undefined;
  /** The container, if it is one. */
  container: ContainerInfo | undefined;
  /** The container's name is currently unknown: a rule that names a container may apply. */
  isUnnamed: boolean;
  /** The target's processes are not visible here: only its runtime can run something there. */
  isRuntimeOnly: boolean;
}

export interface FindPlaceOptions {
  /** Current processes of a service. */
  pidsOf: (service: string) => Promise<readonly number[]>;
  /** Names of the services of these processes. Default: unknown. */
  servicesOf?: (isMeant: (pid: number) => boolean) => readonly string[];
  /** Undefined: this agent sees no containers. */
  containers: ContainerDirectory | undefined;
  view?: typeof viewProcess;
}

/** The target as audits and rules name it. */
export function targetText({ kind, service, container, pid }: PlaceWanted): string {
  const process = pid === 0 ? "" : ` pid ${pid}`;
  if (kind === "service") return `service ${service}${container === "" ? "" : ` container ${container}`}${process}`;
  return kind === "container" ? `container ${container}${process}` : `host${process}`;
}

/**
 * All names by which rules may match the target. A container matches by any of its names, regardless of how it was requested. A process that shares the
 * host's files and processes counts as the host.
 */
export function ruleTargets(wanted: PlaceWanted, { target, container }: Place): string[] {
  if (wanted.kind === "host" && target === undefined) return ["host"];
  const names = container === undefined ? [] : [container.id, container.name, container.service, containerTitle(container)];
  return [...new Set([targetText(wanted), ...names.filter((name) => name !== "").map((name) => `container ${name}`)])];
}

/**
 * The services in the same namespaces, as `service api`: a rule that denies a service also applies to the container or host around it. Processes choose
 * these names themselves, so they are used to deny and never to allow.
 */
export function neighbourTargets({ target }: Place, { servicesOf, view = viewProcess }: FindPlaceOptions): string[] {
  if (!target || !servicesOf) return [];
  return servicesOf((pid) => view(pid)?.place === target.place).map((service) => `service ${service}`);
}

/** Throws `not-found`, `usage` if it is ambiguous, and `unsupported` if it cannot be reached. */
export async function findPlace(wanted: PlaceWanted, options: FindPlaceOptions, signal: AbortSignal): Promise<Place> {
  if (wanted.kind === "container") return containerPlace(wanted, options, signal);
  if (wanted.kind === "service") return servicePlace(wanted, options, signal);
  return wanted.pid === 0 ? hostPlace() : contained(processPlace(viewOf(wanted.pid, options), "process"), options, signal);
}

function hostPlace(): Place {
  return { where: "host", files: createRootFiles(), target: undefined, container: undefined, isUnnamed: false, isRuntimeOnly: false };
}

function viewOf(pid: number, { view = viewProcess }: FindPlaceOptions): ProcessView {
  const found = view(pid);
  if (found) return found;
  throw new CoralError({
    code: "not-found",
    message: `Cannot run a command in the namespaces of process ${pid}: it is not running here, or this agent may not inspect it`,
  });
}

/** A process that shares the agent's mount and pid namespaces is on the host: there is nothing to enter. */
function processPlace(view: ProcessView, what: string, container?: ContainerInfo): Place {
  const isElsewhere = view.rootPrefix !== "" || view.namespaces.some((kind) => kind !== "cgroup");
  const base = { container, isUnnamed: container?.name === "", isRuntimeOnly: false, files: createRootFiles(view.rootPrefix) };
  return isElsewhere
    ? { ...base, where: `${what}, pid ${view.pid}`, target: view }
    : { ...base, where: `host (${what}, pid ${view.pid})`, target: undefined };
}

/** By the container's first process. If it is not visible here, the container's runtime runs the command. */
async function containerPlace(wanted: PlaceWanted, options: FindPlaceOptions, signal: AbortSignal): Promise<Place> {
  const { containers, view = viewProcess } = options;
  if (!containers)
    throw new CoralError({
      code: "unsupported",
      message: `Cannot run a command in container "${wanted.container}": this agent sees no containers`,
    });
  const container = await containers.find(wanted.container, signal);
  const what = `container ${container.id.slice(0, 12)}${container.name === "" ? "" : ` (${container.name})`}`;
  if (!container.isRunning) throw new CoralError({ code: "unavailable", message: `Cannot run a command in ${what}: it is not running` });
  const first = await containers.pidOf(container, signal);
  const found = first === null ? null : view(first);
  if (found === null)
    return { where: what, files: unseenFiles, target: undefined, container, isUnnamed: container.name === "", isRuntimeOnly: true };
  if (wanted.pid === 0) return processPlace(found, what, container);
  const chosen = viewOf(wanted.pid, options);
  if (chosen.place !== found.place)
    throw new CoralError({ code: "not-found", message: `Cannot run a command in ${what}: process ${wanted.pid} is not in it` });
  return processPlace(chosen, what, container);
}

/** By one of the service's processes; throws if they do not share their namespaces. */
async function servicePlace(wanted: PlaceWanted, options: FindPlaceOptions, signal: AbortSignal): Promise<Place> {
  const { view = viewProcess } = options;
  const { service } = wanted;
  const pids = await options.pidsOf(service);
  const views = pids.flatMap((pid) => view(pid) ?? []);
  if (views.length === 0) {
    // Its processes may be invisible although its container is known by name.
    const named = await containerNamed(wanted.container || service, options, signal);
    if (named) return containerPlace({ ...wanted, container: named.id }, options, signal);
    throw new CoralError({
      code: "not-found",
      message: `Cannot run a command in service "${service}": it has no process on this host that is visible to this agent`,
    });
  }
  if (wanted.pid !== 0) {
    const chosen = views.find(({ pid }) => pid === wanted.pid);
    if (!chosen)
      throw new CoralError({
        code: "not-found",
        message: `Cannot run a command in service "${service}": process ${wanted.pid} does not belong to it; its processes are ${pids.slice(0, 10).join(", ")}`,
      });
    return contained(processPlace(chosen, `service ${service}`), options, signal);
  }
  const fitting = wanted.container === "" ? views : await inContainer(wanted, views, options, signal);
  return contained(processPlace(onlyPlace(service, fitting), `service ${service}`), options, signal);
}

/** Adds the process's container, because its runtime has more permissions, such as to run a program as the container's root. */
async function contained(place: Place, { containers }: FindPlaceOptions, signal: AbortSignal): Promise<Place> {
  if (!place.target || !containers) return place;
  try {
    const container = await containers.of(place.target.pid, signal);
    return container === null ? place : { ...place, container, isUnnamed: container.name === "" };
  } catch (error) {
    // Entering namespaces works without the runtime.
    if (error instanceof CoralError && (error.code === "unavailable" || error.code === "timeout")) return { ...place, isUnnamed: true };
    throw error;
  }
}

async function containerNamed(name: string, { containers }: FindPlaceOptions, signal: AbortSignal): Promise<ContainerInfo | undefined> {
  try {
    return await containers?.find(name, signal);
  } catch (error) {
    // No container of that name: the service's own error is more specific. Any other error is reported.
    if (error instanceof CoralError && error.code === "not-found") return undefined;
    throw error;
  }
}

async function inContainer(
  wanted: PlaceWanted,
  views: readonly ProcessView[],
  options: FindPlaceOptions,
  signal: AbortSignal,
): Promise<ProcessView[]> {
  const { target, where } = await containerPlace({ ...wanted, kind: "container", pid: 0 }, options, signal);
  const fitting = views.filter(({ place }) => place === target?.place);
  if (fitting.length > 0) return fitting;
  throw new CoralError({
    code: "not-found",
    message: `Cannot run a command in service "${wanted.service}": no process of it runs in ${where}`,
  });
}

/** The oldest process, if all processes of the service share their namespaces. Otherwise the caller must choose. */
function onlyPlace(service: string, views: readonly ProcessView[]): ProcessView {
  const places = new Map<string, ProcessView>();
  for (const view of views) {
    const known = places.get(view.place);
    if (!known || Number(view.startTicks) < Number(known.startTicks)) places.set(view.place, view);
  }
  const [only] = places.values();
  if (only && places.size === 1) return only;
  const list = [...places.values()].slice(0, 10).map(({ pid }) => pid);
  throw new CoralError({
    code: "usage",
    message: `Cannot run a command in service "${service}": it runs in ${places.size} places on this host (processes ${list.join(", ")}); choose one with --pid or --container`,
    details: { pids: list },
  });
}
