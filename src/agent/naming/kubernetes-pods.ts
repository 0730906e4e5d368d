/** Labels of the pods on this node, from the cluster's API. Optional: without a service account, or when the API refuses, there are none. */

import { readFile } from "node:fs/promises";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { PodLabels } from "../../host/index.ts";

/** GET with a bearer token and the cluster's own CA; resolves with the parsed JSON. */
export type FetchClusterJson = (request: { url: string; token: string; caPem: string; signal: AbortSignal }) => Promise<unknown>;

export interface KubernetesPodsOptions {
  fetchJson: FetchClusterJson;
  env: Readonly<Record<string, string | undefined>>;
  /** Where the pod finds its service account; default as Kubernetes mounts it. */
  directory?: string;
  hostname: string;
  log: Logger;
}

export interface KubernetesPods extends PodLabels {
  /** Asks the API, when there is one. Never rejects unless aborted; what was known stays when it fails. */
  refresh(signal: AbortSignal): Promise<void>;
  /** Why there are no labels, ready to print; null when there are, and outside of clusters. */
  readonly problem: string | null;
}

const defaultDirectory = "/var/run/secrets/kubernetes.io/serviceaccount";
const timeoutMs = 5_000;
const maxPods = 1_000;

type Labels = Readonly<Record<string, string>>;

export function createKubernetesPods(options: KubernetesPodsOptions): KubernetesPods {
  const { env, fetchJson, log, directory = defaultDirectory } = options;
  let labels = new Map<string, Labels>();
  let problem: string | null = null;
  const node = env["NODE_NAME"] ?? env["K8S_NODE_NAME"] ?? options.hostname;
  const [host, port] = [env["KUBERNETES_SERVICE_HOST"], env["KUBERNETES_SERVICE_PORT"] ?? "443"];

  const ask = async (signal: AbortSignal): Promise<void> => {
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
        await ask(signal);
        problem = null;
      } catch (error) {
        signal.throwIfAborted();
        // Most agents run without the right to list pods: names then come from the other sources.
        const why = CoralError.from(error).message;
        if (problem === null) log.info(`Cannot ask the cluster for pod labels: ${why}`);
        problem = `Pod labels of the cluster's API are not used: ${why}`;
      }
    },
    get problem() {
      return problem;
    },
  };
}

/** `containerd://<id>` and its kin, of all containers of all pods. Anything that is not of that form is skipped. */
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
