/** Sums single requests into the groups of a window. The number of groups is bounded: above it, requests are counted without their route. */

import { bucketOf, coarseLayout, fineLayout, type HistogramLayout, type SparseHistogram } from "../../base/latency-histogram.ts";
import type { TrafficProtocol } from "../../model/protocols.ts";
import type { RequestGroup, TrafficRole } from "../core/messages.ts";
import type { FinishedRequest } from "../core/protocol-decoder.ts";
import { otherRoute } from "./route-limiter.ts";

/** Both ends of a connection, as far as groups distinguish them. */
export interface Endpoint {
  pid: number;
  role: TrafficRole;
  protocol: TrafficProtocol;
  isTls: boolean;
  serverPort: number;
  peerAddress: string;
}

export interface RequestGroupsOptions {
  /** Groups kept at once; above that, requests get route `other`. Default 4096. */
  maxGroups?: number;
  /** Windows after which a group without requests is dropped. Default 6. */
  maxIdleWindows?: number;
}

/** A histogram that holds only the range of buckets in use. */
class GrowingHistogram {
  #lo = 0;
  #counts: number[] = [];

  add(layout: HistogramLayout, ns: number): void {
    const bucket = bucketOf(layout, ns);
    const counts = this.#counts;
    if (counts.length === 0) {
      this.#lo = bucket;
      counts.push(1);
      return;
    }
    while (bucket < this.#lo) {
      counts.unshift(0);
      this.#lo--;
    }
    const index = bucket - this.#lo;
    while (index >= counts.length) counts.push(0);
    counts[index] = (counts[index] ?? 0) + 1;
  }

  /** Returns the counts and resets them. */
  take(): SparseHistogram {
    const taken = { lo: this.#lo, counts: this.#counts };
    this.#lo = 0;
    this.#counts = [];
    return taken;
  }
}

interface Group {
  endpoint: Endpoint;
  method: string;
  route: string;
  status: string;
  isError: boolean;
  idleWindows: number;
  count: number;
  requestBytes: number;
  responseBytes: number;
  durationSumNs: number;
  queueSumNs: number;
  queueCount: number;
  duration: GrowingHistogram;
  queue: GrowingHistogram;
  firstByte: GrowingHistogram;
}

/** The groups of one endpoint. A connection keeps a reference, so that adding a request needs no key. */
export interface EndpointGroups {
  readonly endpoint: Endpoint;
  /** By route, then method, then status with its error flag. */
  readonly routes: Map<string, Map<string, Map<string, Group>>>;
  isDropped: boolean;
}

export class RequestGroups {
  readonly #endpoints = new Map<string, EndpointGroups>();
  readonly #maxGroups: number;
  readonly #maxIdleWindows: number;
  #groupCount = 0;
  #overflow = 0;
  #uncounted = 0;

  constructor(options: RequestGroupsOptions = {}) {
    this.#maxGroups = options.maxGroups ?? 4096;
    this.#maxIdleWindows = options.maxIdleWindows ?? 6;
  }

  get groupCount(): number {
    return this.#groupCount;
  }

  endpoint(endpoint: Endpoint): EndpointGroups {
    const key = `${endpoint.pid} ${endpoint.role} ${endpoint.protocol} ${endpoint.isTls} ${endpoint.serverPort} ${endpoint.peerAddress}`;
    let groups = this.#endpoints.get(key);
    if (groups === undefined) {
      groups = { endpoint: ownEndpoint(endpoint), routes: new Map(), isDropped: false };
      this.#endpoints.set(key, groups);
    }
    return groups;
  }

  add(groups: EndpointGroups, request: FinishedRequest): void {
    const { protocol } = request;
    const isOwn = (protocol === undefined || protocol === groups.endpoint.protocol) && !groups.isDropped;
    const own = isOwn ? groups : this.endpoint({ ...groups.endpoint, protocol: protocol ?? groups.endpoint.protocol });
    const group = find(own, request.route, request.method, request.status, request.isError) ?? this.#create(own, request);
    if (group === null) return;
    group.count++;
    group.requestBytes += request.requestBytes;
    group.responseBytes += request.responseBytes;
    group.durationSumNs += request.durationNs;
    group.duration.add(fineLayout, request.durationNs);
    if (request.queueNs !== null) {
      group.queueSumNs += request.queueNs;
      group.queueCount++;
      group.queue.add(coarseLayout, request.queueNs);
    }
    if (request.firstByteNs !== null) group.firstByte.add(coarseLayout, request.firstByteNs);
  }

  /** Returns the groups of the window that ends now, how many of their requests lost their route, and how many are in no group. */
  take(): { requests: RequestGroup[]; overflow: number; uncounted: number } {
    const requests: RequestGroup[] = [];
    for (const [key, groups] of this.#endpoints) {
      for (const [route, methods] of groups.routes) {
        for (const [method, statuses] of methods) {
          for (const [status, group] of statuses) {
            if (group.count > 0) requests.push(takeGroup(group));
            else if (++group.idleWindows > this.#maxIdleWindows) {
              statuses.delete(status);
              this.#groupCount--;
            }
          }
          if (statuses.size === 0) methods.delete(method);
        }
        if (methods.size === 0) groups.routes.delete(route);
      }
      if (groups.routes.size > 0) continue;
      groups.isDropped = true;
      this.#endpoints.delete(key);
    }
    const [overflow, uncounted] = [this.#overflow, this.#uncounted];
    this.#overflow = 0;
    this.#uncounted = 0;
    return { requests, overflow, uncounted };
  }

  /**
   * Above the bound the route goes first; above the bound and a quarter, which only many endpoints can reach, also the peer, the method and the
   * status; above twice the bound the request is only counted as lost.
   */
  #create(groups: EndpointGroups, request: FinishedRequest): Group | null {
    let { route, method, status } = request;
    let own = groups;
    if (this.#groupCount >= this.#maxGroups) {
      route = otherRoute;
      method = "";
      if (this.#groupCount >= this.#maxGroups * 1.25) {
        status = "";
        if (own.endpoint.peerAddress !== "") own = this.endpoint({ ...own.endpoint, peerAddress: "" });
      }
      const other = find(own, route, method, status, request.isError);
      if (other === undefined && this.#groupCount >= this.#maxGroups * 2) {
        this.#uncounted++;
        return null;
      }
      this.#overflow++;
      if (other !== undefined) return other;
    }
    const group = createGroup(own.endpoint, method, route, status, request.isError);
    const methods = ensure(own.routes, route, () => new Map<string, Map<string, Group>>());
    ensure(methods, method, () => new Map<string, Group>()).set(statusKey(status, request.isError), group);
    this.#groupCount++;
    return group;
  }
}

/** Copies only these fields; the given object may hold more. */
function ownEndpoint({ pid, role, protocol, isTls, serverPort, peerAddress }: Endpoint): Endpoint {
  return { pid, role, protocol, isTls, serverPort, peerAddress };
}

function createGroup(endpoint: Endpoint, method: string, route: string, status: string, isError: boolean): Group {
  return {
    endpoint,
    method,
    route,
    status,
    isError,
    idleWindows: 0,
    count: 0,
    requestBytes: 0,
    responseBytes: 0,
    durationSumNs: 0,
    queueSumNs: 0,
    queueCount: 0,
    duration: new GrowingHistogram(),
    queue: new GrowingHistogram(),
    firstByte: new GrowingHistogram(),
  };
}

function find(groups: EndpointGroups, route: string, method: string, status: string, isError: boolean): Group | undefined {
  return groups.routes.get(route)?.get(method)?.get(statusKey(status, isError));
}

/** The same status can be an error at one end only: a 404 is an error for the client. */
function statusKey(status: string, isError: boolean): string {
  return isError ? `!${status}` : status;
}

function ensure<V>(map: Map<string, V>, key: string, create: () => V): V {
  let value = map.get(key);
  if (value === undefined) {
    value = create();
    map.set(key, value);
  }
  return value;
}

function takeGroup(group: Group): RequestGroup {
  const { method, route, status, isError, count, requestBytes, responseBytes, durationSumNs, queueSumNs, queueCount } = group;
  group.idleWindows = 0;
  group.count = 0;
  group.requestBytes = 0;
  group.responseBytes = 0;
  group.durationSumNs = 0;
  group.queueSumNs = 0;
  group.queueCount = 0;
  return {
    ...group.endpoint,
    method,
    route,
    status,
    isError,
    count,
    requestBytes,
    responseBytes,
    durationSumNs,
    queueSumNs,
    queueCount,
    duration: group.duration.take(),
    queue: group.queue.take(),
    firstByte: group.firstByte.take(),
  };
}
