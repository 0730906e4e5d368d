/** Opens what derives data from stored signals: discovery of services and calls, names of external addresses, deployments. */

import { join } from "node:path";
import type { ResourceStack } from "../base/resource-stack.ts";
import { type ColonyStore } from "../store/colony/index.ts";
import { loadEndpointNames, type ResolvedEndpoint, storeEndpointNames } from "../store/discovery/index.ts";
import { red, serviceInstance, spanRed } from "../store/signals/index.ts";
import type { ColonyContext } from "./core/colony-context.ts";
import type { ColonyMetrics } from "./core/colony-metrics.ts";
import { DeploymentWatch } from "./deployments/deployment-watch.ts";
import { DiscoveryLoop } from "./discovery/discovery-loop.ts";
import { createEndpointNames, type StoredEndpointName } from "./discovery/endpoint-names/create-endpoint-names.ts";
import { ServiceDirectory } from "./identity/service-directory.ts";

/** The longest window of requests that an agent reports at once; two pull intervals come on top. */
const deploymentLagMs = 10_000;

export interface WatcherParts {
  store: ColonyStore;
  metrics: ColonyMetrics;
  /** An agent's clock minus the colony's; null when it is not known. */
  clockDifferenceMs: (agentId: string) => number | null;
}

export async function openWatchers(context: ColonyContext, { store, metrics, clockDifferenceMs }: WatcherParts, stack: ResourceStack) {
  const { paths, clock, log } = context;
  const names = stack.use(
    await createEndpointNames({
      settings: context.config.serviceDiscovery.externalResolution,
      rangesDirectory: join(paths.directory, "ranges"),
      store: {
        load: async () => (await loadEndpointNames(store)).map(storedName),
        save: (rows) => storeEndpointNames(store, rows.map(resolvedEndpoint)),
      },
      clock,
      log: log.child("names"),
    }),
  );
  const config = () => context.config.serviceDiscovery;
  const discovery = new DiscoveryLoop({ store, config, names, clock, log: log.child("discovery"), metrics });
  const services = new ServiceDirectory({ store, discovery });
  const deployments = new DeploymentWatch({
    store,
    settings: () => ({
      windowMs: context.config.deployments.windowMs,
      lagMs: Math.min(deploymentLagMs, context.config.deployments.windowMs / 60) + 2 * context.config.pull.intervalMs,
    }),
    clock,
    log: log.child("deployments"),
    names: () => services.names(),
    clockDifferenceMs,
    newest: () => store.lastIngestOf(serviceInstance, red, spanRed),
  });
  return { names, discovery, deployments, services };
}

export type Watchers = Awaited<ReturnType<typeof openWatchers>>;

const resolvedEndpoint = (name: StoredEndpointName): ResolvedEndpoint => ({ ...name });
const storedName = (name: ResolvedEndpoint): StoredEndpointName => ({ ...name, method: name.method as StoredEndpointName["method"] });
