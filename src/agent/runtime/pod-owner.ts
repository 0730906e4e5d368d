/** Who made the agent's own pod, from the cluster's API: the surest way to tell a DaemonSet from a sidecar. */

import { readFile } from "node:fs/promises";
import { CoralError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { PodOwner } from "../../host/index.ts";
import type { FetchClusterJson } from "../naming/kubernetes-pods.ts";

export interface PodOwnerOptions {
  fetchJson: FetchClusterJson;
  env: Readonly<Record<string, string | undefined>>;
  /** Where the pod finds its service account; default as Kubernetes mounts it. */
  directory?: string;
  log: Logger;
}

const defaultDirectory = "/var/run/secrets/kubernetes.io/serviceaccount";
const timeoutMs = 3_000;

/** A pod's owner never changes: it is asked for until it is known once. Null when the cluster cannot be asked or refuses. */
export function createPodOwner(
  options: PodOwnerOptions,
): (pod: { name: string; namespace: string }, signal: AbortSignal) => Promise<PodOwner | null> {
  const { fetchJson, env, log, directory = defaultDirectory } = options;
  let known: PodOwner | undefined;
  let isRefusalTold = false;
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
      // Most agents may not read pods: labels and namespaces tell then.
      if (!isRefusalTold) log.info(`Cannot ask the cluster for the owner of this pod: ${CoralError.from(error).message}`);
      isRefusalTold = true;
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
