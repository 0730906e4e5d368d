/** Local callers of a window's servers. A server sees only a loopback address; its callers' own requests, of the same kind, tell who sent them. */

import { isLoopback } from "../../base/ip-address.ts";
import { remembered } from "../../base/remembered.ts";
import type { RequestGroup } from "../../traffic/index.ts";
import { splitRequests } from "./split-requests.ts";

/** Requests of one caller; null when its service or its requests are not known. */
export interface CalledGroup {
  group: RequestGroup;
  peer: string | null;
}

/** Requests at the edges of a window are counted in another one at the other end. */
const toleranceRatio = 0.05;

export class WindowCallers {
  /** Requests by caller, for each kind and for each port; null for callers without a known service. */
  readonly #kinds = new Map<string, Map<string | null, number>>();
  readonly #ports = new Map<string, Map<string | null, number>>();

  constructor(groups: readonly RequestGroup[], serviceOf: (client: RequestGroup) => string | null) {
    for (const group of groups) {
      if (group.role !== "client" || !isLoopback(group.peerAddress)) continue;
      const service = serviceOf(group);
      for (const sums of [this.#kinds, this.#ports]) {
        const sent = remembered(sums, sums === this.#kinds ? kindOf(group) : String(group.serverPort), () => new Map());
        sent.set(service, (sent.get(service) ?? 0) + group.count);
      }
    }
  }

  /** Undefined when this window does not show the callers of these requests. */
  of(group: RequestGroup): CalledGroup[] | undefined {
    if (group.role !== "server" || !isLoopback(group.peerAddress)) return undefined;
    const sent = this.#kinds.get(kindOf(group));
    const callers = [...(sent ?? this.#ports.get(String(group.serverPort)) ?? [])];
    if (callers.length === 0) return undefined;
    const [only, ...others] = callers;
    if (only && others.length === 0) return [{ group, peer: only[0] }];
    if (!sent) return [{ group, peer: null }];
    const total = callers.reduce((sum, [, count]) => sum + count, 0);
    if (Math.abs(total - group.count) > group.count * toleranceRatio) return [{ group, peer: null }];
    const parts = splitRequests(
      group,
      callers.map(([, count]) => count),
    );
    return callers.flatMap(([peer], index) => {
      const part = parts[index];
      return part && part.count > 0 ? [{ group: part, peer }] : [];
    });
  }
}

function kindOf({ serverPort, protocol, method, route, status, isError }: RequestGroup): string {
  return [serverPort, protocol, method, route, status, isError].join("\u0000");
}
