/** The owner of the agent's own pod, from the Kubernetes API: the most reliable way to distinguish a DaemonSet from a sidecar. */

import { readFile } from "node:fs/promises";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { PodOwner } from "../../host/index.ts";
import type { FetchClusterJson } from "../naming/kubernetes-pods.ts";

export interface PodOwnerOptions {
  fetchJson: FetchClusterJson;
  env: Readonly<Record<string, string | undefined>>;
  /** Mount point of the service account; default as Kubernetes mounts it. */
  directory?: string;
  log: Logger;
}

const defaultDirectory = "/var/run/secrets/kubernetes.io/serviceaccount";
/** Short, because the agent's start waits for it. */
const timeoutMs = 3_000;

/** Queries the API until the owner is known; it never changes. Null outside a cluster, and when the API fails or refuses. */
export function createPodOwner(
  options: PodOwnerOptions,
): (pod: { name: string; namespace: string }, signal: AbortSignal) => Promise<PodOwner | null> {
  const { fetchJson, env, log, directory = defaultDirectory } = options;
  let known: PodOwner | undefined;
  let hasLogged = false;
  return async ({ name, namespace }, signal) => {
    const [host, port] = [env["KUBERNETES_SERVICE_HOST"], env["KUBERNETES_SERVICE_PORT"] ?? "443"];
    if (known || host === undefined || namespace === "") return known ?? null;
    try {
      const [token, caPem] = await Promise.all([readFile(`${directory}/token`, "utf8"), readFile(`${directory}/ca.crt`, "utf8")]);
      const authority = host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
      const url = `https://${authority}/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(name)}`;
      const limit = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
      known = ownerIn(await fetchJson({ url, token: token.trim(), caPem, signal: limit }));
      return known;
    } catch (error) {
      signal.throwIfAborted();
      // Most agents lack permission to read pods: detection then uses labels and namespaces.
      if (!hasLogged)
        log.info(
          `Cannot read the owner of this pod from the Kubernetes API: ${CoralError.from(error).message}; using labels and namespaces`,
        );
      hasLogged = true;
      return null;
    }
  };
}

/** The controller among the owners, or the first of them. */
export function ownerIn(pod: unknown): PodOwner {
  const owners = listOf(objectOf(objectOf(pod)["metadata"])["ownerReferences"]).map(objectOf);
  const owner = owners.find(({ controller }) => controller === true) ?? owners[0] ?? {};
  const text = (value: unknown): string => (typeof value === "string" ? value.slice(0, 253) : "");
  return { kind: text(owner["kind"]), name: text(owner["name"]) };
}

function objectOf(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}
