/** What a process in a pod reveals about its pod: downward API files, variables, the runtime's annotations. */

import { printable } from "../../base/escape-text.ts";
import type { HostRoot } from "../files/host-root.ts";
import { type ContainerFacts, type ContainerReader, containerOf } from "./container-facts.ts";

/** Labels of this node's pods by container id, from the cluster's API; empty without one. */
export interface PodLabels {
  of(containerId: string): Readonly<Record<string, string>> | null;
}

export const noPodLabels: PodLabels = { of: () => null };

export interface KubernetesFacts {
  /** The label that names the service; null when no source has it. */
  app: string | null;
  /** The workload behind the pod, by the form of the pod's name: `shop-api` of `shop-api-7d9f8b6c5-x2x4z`. */
  workload: string | null;
  namespace: string | null;
  /** The name of the container in a pod that has several; null otherwise. */
  container: string | null;
  /** Of several containers, the one named after the app, or the only one that is not a well-known sidecar. */
  isMainContainer?: boolean;
}

export interface PodProcess {
  pid: number;
  cgroup: string | null;
  environment: ReadonlyMap<string, string>;
  container: ContainerFacts | null;
  /** The label that names the service; `app` unless configured. */
  label: string;
  containers: ContainerReader;
}

const labelFiles = ["/etc/podinfo/labels", "/etc/pod-info/labels", "/podinfo/labels"];
const maxFileBytes = 64 * 1024;

/** `app="shop"` lines, quoted as Go does it. */
export function parseLabels(text: string): Map<string, string> {
  const labels = new Map<string, string>();
  for (const line of text.split("\n", 256)) {
    const match = /^([\w./-]{1,317})="(.*)"$/.exec(line.trim());
    if (match) labels.set(match[1] ?? "", (match[2] ?? "").replace(/\\(["\\])/g, "$1"));
  }
  return labels;
}

/** Deployments add a hash and five characters, stateful sets a number, daemon sets and jobs five characters. Null when it is none of these. */
export function workloadOf(podName: string): string | null {
  const deployment = /^(.+)-[bcdfghjklmnpqrstvwxz2456789]{6,10}-[bcdfghjklmnpqrstvwxz2456789]{5}$/.exec(podName)?.[1];
  return deployment ?? /^(.+)-(?:[bcdfghjklmnpqrstvwxz2456789]{5}|\d{1,5})$/.exec(podName)?.[1] ?? null;
}

/** `APP_LABEL`, `POD_LABEL_APP` and the like, as manifests set them from `metadata.labels['app']`. */
function labelVariables(label: string): string[] {
  const word = label.toUpperCase().replace(/[^A-Z0-9]+/g, "_");
  return [
    `${word}_LABEL`,
    `POD_LABEL_${word}`,
    `POD_${word}`,
    `K8S_LABEL_${word}`,
    `K8S_${word}`,
    `KUBERNETES_${word}`,
    `LABEL_${word}`,
    `K8S_${word}_NAME`,
  ];
}

function clean(text: string | null | undefined): string | null {
  const value = printable(text ?? "", 128).trim();
  return value === "" ? null : value;
}

/** Null for a process that is in no pod. */
export function readKubernetesFacts(root: HostRoot, process: PodProcess, api: PodLabels): KubernetesFacts | null {
  const { environment, container, label, cgroup } = process;
  const isInPod = environment.has("KUBERNETES_SERVICE_HOST") || (container?.pod ?? null) !== null || /\/kubepods/.test(cgroup ?? "");
  if (!isInPod) return null;
  // The recommended labels are the fallback for a label that is not set.
  const wanted = [label, "app.kubernetes.io/name", "k8s-app"];
  const sources: ((name: string) => string | null | undefined)[] = [
    labelsOfFiles(root, process.pid),
    (name) =>
      labelVariables(name)
        .map((variable) => environment.get(variable))
        .find((value) => value !== undefined && value !== ""),
    (name) => container?.labels[name],
    (name) => (container ? api.of(container.id)?.[name] : null),
  ];
  const app = wanted.flatMap((name) => sources.map((source) => clean(source(name)))).find((value) => value !== null) ?? null;
  const podName = environment.get("POD_NAME") ?? environment.get("K8S_POD_NAME") ?? container?.pod?.name ?? environment.get("HOSTNAME");
  const namespace = environment.get("POD_NAMESPACE") ?? environment.get("K8S_NAMESPACE") ?? container?.pod?.namespace;
  const own = clean(container?.pod?.container);
  const siblings = own === null ? [] : siblingsOf(root, process, own);
  return {
    app,
    workload: podName === undefined ? null : clean(workloadOf(podName)),
    namespace: clean(namespace ?? root.readText(`/proc/${process.pid}/root${namespaceFile}`, undefined, 256)),
    container: siblings.length > 0 ? own : null,
    isMainContainer: own !== null && (own === app || (!isSidecar(own) && siblings.every(isSidecar))),
  };
}

const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/** Where the groups of pods are, in version 2 and, in version 1, in one of its trees. */
const cgroupRoots = ["/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids"];

/** Sidecars that meshes, clouds and collectors add to a pod. */
const isSidecar = (name: string): boolean =>
  /(?:^|-)(?:proxy|sidecar|agent|exporter|collector|init|logs?|logger|metrics)(?:-|$)|^(?:istio|linkerd|envoy|daprd|fluent|filebeat|vector|promtail|otel|oauth2|cloud-?sql|vault|consul|datadog)/.test(
    name,
  );

/** Names of the other containers in the pod's group; the sandbox has none. */
function siblingsOf(root: HostRoot, { cgroup, container, containers }: PodProcess, own: string): string[] {
  const pod = cgroup === null || !container ? undefined : /^(.*)\/[^/]*$/.exec(cgroup.slice(0, cgroup.indexOf(container.id)))?.[1];
  if (pod === undefined) return [];
  const names = cgroupRoots.flatMap((directory) =>
    (root.listDirectories(directory + pod) ?? []).map((group) => {
      const sibling = containerOf(`${pod}/${group}`);
      return sibling === null ? null : (containers.of(sibling).pod?.container ?? null);
    }),
  );
  return names.filter((name) => name !== null && name !== "POD" && name !== own) as string[];
}

function labelsOfFiles(root: HostRoot, pid: number): (name: string) => string | undefined {
  let labels: Map<string, string> | undefined;
  const read = (): Map<string, string> => {
    for (const file of labelFiles) {
      const text = root.readText(`/proc/${pid}/root${file}`, undefined, maxFileBytes);
      if (text !== null) return parseLabels(text);
    }
    return new Map();
  };
  return (name) => (labels ??= read()).get(name);
}
