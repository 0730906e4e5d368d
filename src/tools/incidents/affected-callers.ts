/** Finds the services affected when one fails or slows down, by walking observed calls from callee to caller. */

export interface ObservedCall {
  caller: string;
  callee: string;
  requests: number;
}

export interface AffectedCaller {
  service: string;
  distance: number;
  /** Path from the caller to the service. */
  path: string[];
  /** Upper bound of the share of its requests; null when it serves no observed requests. */
  share: number | null;
  /** Calls towards the service, or to the next one on the path. */
  requests: number;
}

const callersMax = 50;

/**
 * Breadth first, along the path with the largest share. Which calls belong to which requests is unknown, so shares are upper
 * bounds: a caller with at least one call per request counts as affected in all of them.
 */
export function affectedCallers(service: string, calls: readonly ObservedCall[], served: ReadonlyMap<string, number>): AffectedCaller[] {
  const found = new Map<string, AffectedCaller>();
  let layer: AffectedCaller[] = [{ service, distance: 0, path: [service], share: 1, requests: 0 }];
  while (layer.length > 0 && found.size < callersMax) {
    const next = new Map<string, AffectedCaller>();
    for (const one of layer)
      for (const { caller, callee, requests } of calls) {
        if (callee !== one.service || caller === service || found.has(caller) || requests <= 0) continue;
        const own = served.get(caller) ?? 0;
        const share = own > 0 ? Math.min(1, requests / own) * (one.share ?? 1) : null;
        const known = next.get(caller);
        if (known && (known.share ?? 0) >= (share ?? 0)) continue;
        next.set(caller, { service: caller, distance: one.distance + 1, path: [caller, ...one.path], share, requests });
      }
    for (const one of next.values()) found.set(one.service, one);
    layer = [...next.values()];
  }
  return [...found.values()].sort((a, b) => a.distance - b.distance || (b.share ?? 0) - (a.share ?? 0) || b.requests - a.requests);
}
