/** Labels of the pods on this node, from the Kubernetes API. Optional: none without a service account or when the API refuses. */

import { readFile } from "node:fs/promises";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { PodLabels } from "../../host/index.ts";

/** GET with a bearer token and the cluster's CA; resolves with the parsed JSON. */
export type FetchClusterJson = (request: { url: string; token: string; caPem: string; signal: AbortSignal }) => Promise<unknown>;

export interface KubernetesPodsOptions {
  fetchJson: FetchClusterJson;
  env: Readonly<Record<string, string | undefined>>;
  /** Mount point of the service account; default as Kubernetes mounts it. */
  directory?: string;
  hostname: string;
  log: Logger;
}

/** Needs `list` on pods for the agent's service account. Without it, pods have no labels, and `problem` states why. */
export interface KubernetesPods extends PodLabels {
  /** Queries the API, if in a cluster. Rejects only when aborted; a failure keeps the previous labels. */
  refresh(signal: AbortSignal): Promise<void>;
  /** Why labels are not used; null while they are, and outside a cluster. */
  readonly problem: string | null;
}

const defaultDirectory = "/var/run/secrets/kubernetes.io/serviceaccount";
/** For one request to the API server. */
const timeoutMs = 5_000;
/** Upper limit of pods per node in one list; Kubernetes recommends at most 110. */
const maxPods = 1_000;

type Labels = Readonly<Record<string, string>>;

/** Uses the pod's service account. Every failure keeps the previous labels and is reported as `problem`. */
export function createKubernetesPods(options: KubernetesPodsOptions): KubernetesPods {
  const { env, fetchJson, log, directory = defaultDirectory } = options;
  let labels = new Map<string, Labels>();
  let problem: string | null = null;
  const node = env["NODE_NAME"] ?? env["K8S_NODE_NAME"] ?? options.hostname;
  const [host, port] = [env["KUBERNETES_SERVICE_HOST"], env["KUBERNETES_SERVICE_PORT"] ?? "443"];

  const fetchLabels = async (signal: AbortSignal): Promise<void> => {
    const [token, caPem] = await Promise.all([readFile(`${directory}/token`, "utf8"), readFile(`${directory}/ca.crt`, "utf8")]);
    const authority = host?.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
    const selector = encodeURIComponent(`spec.nodeName=${node}`);
    const url = `https://${authority}/api/v1/pods?fieldSelector=${selector}&limit=${maxPods}`;
    labels = labelsByContainer(
      await fetchJson({ url, token: token.trim(), caPem, signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]) }),
    );
  };

  return {
    of: (containerId) => labels.get(containerId) ?? null,
    refresh: async (signal) => {
      if (host === undefined) return;
      try {
        await fetchLabels(signal);
        problem = null;
      } catch (error) {
        signal.throwIfAborted();
        // Most agents lack permission to list pods: names then come from other sources.
        const reason = CoralError.from(error).message;
        if (problem === null) log.info(`Cannot read pod labels from the Kubernetes API: ${reason}; naming services by other sources`);
        problem = `Pod labels are not used, the Kubernetes API cannot be read: ${reason}`;
      }
    },
    get problem() {
      return problem;
    },
  };
}

/** Labels by container id, for all containers of all pods. Ids are `containerd://<id>` and similar; other values are skipped. */
export function labelsByContainer(answer: unknown): Map<string, Labels> {
  const labels = new Map<string, Labels>();
  for (const pod of listIn(answer, "items").slice(0, maxPods)) {
    const own = objectIn(objectIn(pod, "metadata"), "labels");
    const texts = Object.fromEntries(Object.entries(own).filter((entry): entry is [string, string] => typeof entry[1] === "string"));
    const status = objectIn(pod, "status");
    for (const key of ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"]) {
      for (const container of listIn(status, key)) {
        const { containerID: id } = objectOf(container);
        const found = typeof id === "string" ? /^[a-z-]+:\/\/([0-9a-f]{64})$/.exec(id)?.[1] : undefined;
        if (found !== undefined) labels.set(found, texts);
      }
    }
  }
  return labels;
}

function objectOf(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

function objectIn(value: unknown, key: string): Record<string, unknown> {
  return objectOf(objectOf(value)[key]);
}

function listIn(value: unknown, key: string): unknown[] {
  const found = objectOf(value)[key];
  return Array.isArray(found) ? found : [];
}
