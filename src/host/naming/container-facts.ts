/** Facts about a container from the files of its runtime: name, Compose or Swarm service, pod. */

import { printable } from "../../base/escape-text.ts";
import type { HostRoot } from "../files/host-root.ts";

export type ContainerRuntime = "docker" | "containerd" | "cri-o" | "podman" | "lxc" | "nspawn" | "unknown";

/** From the cgroup path. */
export interface ContainerId {
  /** Full id; for LXC and nspawn, the name. */
  id: string;
  runtime: ContainerRuntime;
}

export interface ContainerFacts {
  id: string;
  runtime: ContainerRuntime;
  name: string | null;
  /** `com.docker.compose.service` or Swarm's: what several containers of one service share. */
  service: string | null;
  /** The Compose project or Swarm stack that the service belongs to. */
  project: string | null;
  /** Without tag and digest: `ghcr.io/acme/api`. */
  image: string | null;
  pod: { name: string; namespace: string | null; container: string | null } | null;
  /** Labels of the pod, as far as the runtime keeps them. */
  labels: Readonly<Record<string, string>>;
}

export interface ContainerReader {
  of(container: ContainerId): ContainerFacts;
}

const maxContainers = 2048;
const maxFileBytes = 1024 * 1024;
/** An unknown container is looked up again after this many requests. */
const retryAfterLookups = 512;

const runtimeMarks: readonly [RegExp, ContainerRuntime][] = [
  [/(?:^|\/)(?:docker[-/])/, "docker"],
  [/(?:^|\/)cri-containerd-|\/k8s\.io\//, "containerd"],
  [/(?:^|\/)crio-/, "cri-o"],
  [/(?:^|\/)libpod-|\/libpod_parent\//, "podman"],
];

/** The innermost container of a cgroup path; null outside of containers. */
export function containerOf(cgroup: string): ContainerId | null {
  const ids = [...cgroup.matchAll(/(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])/g)];
  const last = ids.at(-1);
  if (last) {
    const head = cgroup.slice(0, last.index);
    const runtime = runtimeMarks.filter(([mark]) => mark.test(head)).at(-1)?.[1] ?? "unknown";
    return { id: last[0], runtime };
  }
  const lxc = /\/lxc(?:\.payload)?[./]([\w.-]+)/.exec(cgroup)?.[1];
  if (lxc !== undefined) return { id: lxc, runtime: "lxc" };
  const machine = /\/machine\.slice\/(?:systemd-nspawn@([^/]+)\.service|machine-([^/]+)\.scope)/.exec(cgroup);
  const name = machine?.[1] ?? machine?.[2];
  return name === undefined ? null : { id: name.replaceAll("\\x2d", "-"), runtime: "nspawn" };
}

type Json = Record<string, unknown>;

function objectIn(value: unknown, key: string): Json {
  const found = typeof value === "object" && value !== null ? (value as Json)[key] : undefined;
  return typeof found === "object" && found !== null ? (found as Json) : {};
}

function textIn(value: unknown, ...keys: string[]): string | null {
  for (const key of keys) {
    const found = typeof value === "object" && value !== null ? (value as Json)[key] : undefined;
    if (typeof found === "string" && found !== "") return printable(found, 256);
  }
  return null;
}

function readJson(root: HostRoot, path: string): unknown {
  const text = root.readText(path, undefined, maxFileBytes);
  if (text === null) return null;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    // Partially written or of an unknown format: the next request reads it again.
    return null;
  }
}

/** Labels of a container or annotations of its OCI bundle, in the formats of all runtimes. */
function factsFrom(base: ContainerFacts, values: Json): ContainerFacts {
  const podName = textIn(values, "io.kubernetes.pod.name", "io.kubernetes.cri.sandbox-name", "io.kubernetes.cri-o.KubeName");
  const container = textIn(values, "io.kubernetes.container.name", "io.kubernetes.cri.container-name");
  const namespace = textIn(values, "io.kubernetes.pod.namespace", "io.kubernetes.cri.sandbox-namespace", "io.kubernetes.cri-o.Namespace");
  const crioLabels = textIn(values, "io.kubernetes.cri-o.Labels");
  return {
    ...base,
    name: base.name ?? textIn(values, "nerdctl/name", "io.podman.annotations.name") ?? container,
    service:
      base.service ??
      textIn(
        values,
        "com.docker.compose.service",
        "io.podman.compose.service",
        "com.docker.swarm.service.name",
        "com.amazonaws.ecs.container-name",
      ),
    project: base.project ?? textIn(values, "com.docker.compose.project", "io.podman.compose.project", "com.docker.stack.namespace"),
    image: base.image ?? imageName(textIn(values, "io.kubernetes.cri.image-name", "io.kubernetes.cri-o.ImageName", "nerdctl/image-ref")),
    pod: base.pod ?? (podName === null ? null : { name: podName, namespace, container }),
    labels: { ...base.labels, ...(crioLabels === null ? {} : labelsIn(crioLabels)) },
  };
}

function labelsIn(text: string): Record<string, string> {
  try {
    const parsed = JSON.parse(text) as unknown;
    if (typeof parsed !== "object" || parsed === null) return {};
    return Object.fromEntries(
      Object.entries(parsed)
        .filter((entry): entry is [string, string] => typeof entry[1] === "string")
        .slice(0, 64),
    );
  } catch {
    // Truncated by our own limit, or written by another program: no labels.
    return {};
  }
}

/** `acme/api` of `acme/api:1.4@sha256:…`; null for a bare digest, which changes with each release. */
function imageName(reference: string | null): string | null {
  const name = reference?.replace(/@.*$/, "").replace(/:[\w.-]+$/, "") ?? "";
  return name === "" || name === "sha256" || /^[0-9a-f]{12,64}$/.test(name) ? null : name;
}

const dockerRoots = ["/var/lib/docker", "/var/snap/docker/common/var-lib-docker", "/mnt/docker", "/data/docker"];
const bundleRoots = [
  "/run/containerd/io.containerd.runtime.v2.task/k8s.io",
  "/run/containerd/io.containerd.runtime.v2.task/default",
  "/run/containerd/io.containerd.runtime.v2.task/moby",
  "/run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io",
  "/var/run/docker/runtime-runc/moby",
];
const storageRoots = ["/run/containers/storage/overlay-containers", "/var/lib/containers/storage/overlay-containers"];

function readDocker(root: HostRoot, facts: ContainerFacts): ContainerFacts | null {
  const configured = textIn(readJson(root, "/etc/docker/daemon.json"), "data-root");
  for (const directory of configured === null ? dockerRoots : [configured, ...dockerRoots]) {
    const config = readJson(root, `${directory}/containers/${facts.id}/config.v2.json`);
    const name = textIn(config, "Name");
    if (name === null) continue;
    const image = imageName(textIn(objectIn(config, "Config"), "Image"));
    const named = { ...facts, runtime: "docker", name: name.replace(/^\//, ""), image } as const;
    return factsFrom(named, objectIn(objectIn(config, "Config"), "Labels"));
  }
  return null;
}

/** The bundle's config.json of containerd, CRI-O and Podman. */
function readBundle(root: HostRoot, facts: ContainerFacts): ContainerFacts | null {
  const bundles = [
    ...bundleRoots.map((directory) => `${directory}/${facts.id}`),
    ...storageRoots.map((directory) => `${directory}/${facts.id}/userdata`),
  ];
  for (const bundle of bundles) {
    const config = readJson(root, `${bundle}/config.json`);
    if (config !== null) return factsFrom(facts, objectIn(config, "annotations"));
  }
  return null;
}

/** Podman and CRI-O list their containers with their names in one file. */
function readStorageName(root: HostRoot, id: string): string | null {
  const list = readJson(root, "/var/lib/containers/storage/overlay-containers/containers.json");
  if (!Array.isArray(list)) return null;
  const found = list.find((entry) => textIn(entry, "id") === id) as { names?: unknown } | undefined;
  const [name] = Array.isArray(found?.names) ? found.names : [];
  return typeof name === "string" ? printable(name, 256) : null;
}

export function createContainerReader(root: HostRoot): ContainerReader {
  const known = new Map<string, { facts: ContainerFacts; lookups: number }>();

  const read = ({ id, runtime }: ContainerId): ContainerFacts => {
    const empty: ContainerFacts = { id, runtime, name: null, service: null, project: null, image: null, pod: null, labels: {} };
    if (runtime === "lxc" || runtime === "nspawn") return { ...empty, name: printable(id, 256) };
    const found = readDocker(root, empty) ?? readBundle(root, empty) ?? empty;
    return found.name === null ? { ...found, name: readStorageName(root, id) } : found;
  };

  return {
    of: (container) => {
      const entry = known.get(container.id);
      const isEmpty = entry !== undefined && entry.facts.name === null && entry.facts.pod === null;
      if (entry && !(isEmpty && ++entry.lookups > retryAfterLookups)) return entry.facts;
      if (known.size >= maxContainers) known.clear();
      const facts = read(container);
      known.set(container.id, { facts, lookups: 0 });
      return facts;
    },
  };
}
