/**
 * Attributes a port of Node's cluster module. The parent listens and passes connections on, so the kernel shows only the parent. In a program that
 * forks itself, parent and workers serve; under PM2, only the workers of one app do.
 */

import type { ProcessFacts } from "../processes/process-facts.ts";

interface ClusterView {
  factsOf(pid: number): ProcessFacts | null;
  childrenOf(pid: number): readonly { pid: number }[];
  /** Processes that hold connections accepted at this port. */
  acceptedAt(port: number): ReadonlySet<number>;
}

/** Workers of this listener's owner; the owner itself if it has none, or if it is unknown which ones serve. */
export function clusterOwners(owner: number, port: number, view: ClusterView): readonly number[] {
  const parent = view.factsOf(owner);
  if (!parent?.exe || !/\/(?:node|nodejs|bun)$/.test(parent.exe)) return [owner];
  const workers = view
    .childrenOf(owner)
    .map(({ pid }) => view.factsOf(pid))
    .filter((facts) => facts !== null && facts.clusterPorts !== null) as ProcessFacts[];
  if (workers.length === 0) return [owner];
  const isManager = parent.entry.name.startsWith("PM2 v") || parent.commandLine?.startsWith("PM2 v") === true;
  if (!isManager) return [owner, ...workers.map(({ entry }) => entry.pid)];
  const app = servingApp(workers, port, view);
  return app === null ? [owner] : workers.filter(({ origin }) => origin.id === app).map(({ entry }) => entry.pid);
}

/** The app whose workers have connections there, or were given this port, or the only one. */
function servingApp(workers: readonly ProcessFacts[], port: number, view: ClusterView): string | null {
  const apps = new Set(workers.map(({ origin }) => origin.id));
  const [only = null] = apps;
  if (apps.size === 1) return only;
  const accepted = view.acceptedAt(port);
  const served = workers.find(({ entry }) => accepted.has(entry.pid)) ?? workers.find(({ clusterPorts }) => clusterPorts?.includes(port));
  return served?.origin.id ?? null;
}
