/** Reports of a traffic process for tests. */

import type {
  RequestGroup,
  SuperviseTrafficOptions,
  TrafficSettings,
  TrafficStatus,
  TrafficSupervisor,
  TrafficWindow,
} from "../../traffic/index.ts";

export function requestGroup(more: Partial<RequestGroup> = {}): RequestGroup {
  const { count = 1 } = more;
  return {
    pid: 5,
    role: "server",
    protocol: "http",
    isTls: false,
    serverPort: 80,
    peerAddress: "203.0.113.9",
    method: "GET",
    route: "/",
    status: "200",
    isError: false,
    count,
    requestBytes: 100 * count,
    responseBytes: 1_000 * count,
    durationSumNs: 2_000_000 * count,
    queueSumNs: 0,
    queueCount: 0,
    duration: { lo: 177, counts: [count] },
    queue: { lo: 0, counts: [] },
    firstByte: { lo: 80, counts: [count] },
    ...more,
  };
}

/** A window of ten seconds that ends at `toMs` of the monotonic clock. */
export function trafficWindow(toMs: number, requests: RequestGroup[], more: Partial<TrafficWindow> = {}): TrafficWindow {
  return {
    kind: "window",
    fromNs: BigInt(Math.round((toMs - 10_000) * 1e6)),
    toNs: BigInt(Math.round(toMs * 1e6)),
    requests,
    losses: [],
    names: [],
    peerNames: [],
    cost: { bpfNs: 5_000_000, bpfRuns: 10_000, cpuNs: 20_000_000, rssBytes: 50 * 1024 ** 2, mapBytes: 8 * 1024 ** 2 },
    ...more,
  };
}

/** Replaces the traffic process: records orders, and returns what a test sets. */
export class FakeTraffic {
  options: SuperviseTrafficOptions | undefined;
  settings: TrafficSettings[] = [];
  started = 0;
  closed = 0;
  status: TrafficStatus = { state: null, pid: 4_242, restarts: 0, lastEnd: null };

  readonly supervise = (options: SuperviseTrafficOptions): TrafficSupervisor => {
    this.options = options;
    this.started++;
    this.settings.push(options.settings);
    return {
      status: () => this.status,
      changeSettings: (settings) => this.settings.push(settings),
      capture: () => true,
      stopCapture: () => undefined,
      markScan: () => false,
      [Symbol.asyncDispose]: async () => {
        this.closed++;
      },
    };
  };
}
