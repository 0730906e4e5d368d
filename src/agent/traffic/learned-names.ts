/**
 * Names by which clients address services: the Host of HTTP requests, gRPC services, TLS server names. Clients choose them, so they become aliases.
 * One of them names a service only if nothing else is known about it, and only after many requests.
 */

import { parseIpv4, parseIpv6 } from "../../base/ip-parse.ts";
import { remembered } from "../../base/remembered.ts";
import type { TrafficName } from "../../traffic/index.ts";
import type { ProcessKey } from "../naming/service-identities.ts";
import { processKey, type TrafficNames, type TrafficSource } from "../naming/service-namer.ts";

export interface LearnedNamesOptions {
  /** Of this machine: it does not identify a service. */
  hostname: string;
  /** Cached pairs of process and port. Default 4096. */
  maxProcessPorts?: number;
}

interface ProcessPort {
  pid: number;
  startTicks: number;
  port: number;
  sources: Map<TrafficName["source"], Candidates>;
}

interface Candidates {
  requests: Map<string, number>;
  /** Requests without a usable name: an address, localhost, this machine. */
  nameless: number;
  chosen: string | undefined;
}

/** Of a process that no scan has seen. */
const unknownProcess: ProcessKey = { pid: 0, startTicks: 0 };
/** Per process. */
const maxAliases = 16;
/** A name is accepted from this many requests and this share of all requests. */
const minRequests = 20;
/** Share of all requests to the port. */
const minRatio = 0.6;
/** An accepted name is replaced by one with this many times its requests. */
const replaceFactor = 3;
/** Names per port: security scanners send a new one with every request. */
const maxCandidates = 32;
/** Counts are halved at this total, so that unused names decay. */
const halveAt = 1_000_000;

/** Counts requested names per process and port. Memory is bounded in ports, names and aliases. */
export class LearnedNames implements TrafficNames {
  readonly #hostname: string;
  readonly #maxProcessPorts: number;
  /** Least recently seen first. */
  readonly #processPorts = new Map<string, ProcessPort>();

  constructor({ hostname, maxProcessPorts = 4_096 }: LearnedNamesOptions) {
    this.#hostname = hostname.toLowerCase();
    this.#maxProcessPorts = maxProcessPorts;
  }

  /** `headOf`: the topmost process of a family; its start time distinguishes processes that reuse a pid. */
  add(names: readonly TrafficName[], headOf: (pid: number) => ProcessKey | undefined): void {
    const touched = new Set<Candidates>();
    for (const { pid, port, source, name, requests } of names) {
      const head = headOf(pid) ?? unknownProcess;
      const clean = source === "grpc_service" ? grpcName(name) : this.#hostName(name);
      if (!(requests > 0)) continue;
      const candidates = this.#candidatesOf(head.pid, head.startTicks, port, source);
      if (clean === null) candidates.nameless += requests;
      else count(candidates, clean, requests);
      touched.add(candidates);
    }
    for (const candidates of touched) choose(candidates);
  }

  nameAtPort(port: number, sources: readonly TrafficSource[]): string | undefined {
    const entry = this.#processPorts.get(keyOf(unknownProcess.pid, port));
    for (const source of sources) {
      const name = entry?.sources.get(source)?.chosen;
      if (name !== undefined) return name;
    }
    return undefined;
  }

  aliases(): Map<string, string[]> {
    const sums = new Map<string, Map<string, number>>();
    for (const entry of this.#processPorts.values()) {
      const own = remembered(sums, processKey(entry), () => new Map<string, number>());
      for (const { requests } of entry.sources.values())
        for (const [name, sum] of requests) if (sum >= minRequests) own.set(name, (own.get(name) ?? 0) + sum);
    }
    const mostRequested = (names: Map<string, number>): string[] => [...names].sort((a, b) => b[1] - a[1]).map(([name]) => name);
    return new Map([...sums].map(([key, names]) => [key, mostRequested(names).slice(0, maxAliases)]));
  }

  #candidatesOf(pid: number, startTicks: number, port: number, source: TrafficName["source"]): Candidates {
    const key = keyOf(pid, port);
    const known = this.#processPorts.get(key);
    const entry =
      known?.startTicks === startTicks ? known : { pid, startTicks, port, sources: new Map<TrafficName["source"], Candidates>() };
    this.#processPorts.delete(key);
    this.#processPorts.set(key, entry);
    for (const oldest of this.#processPorts.keys()) {
      if (this.#processPorts.size <= this.#maxProcessPorts) break;
      this.#processPorts.delete(oldest);
    }
    const candidates = entry.sources.get(source) ?? { requests: new Map<string, number>(), nameless: 0, chosen: undefined };
    entry.sources.set(source, candidates);
    return candidates;
  }

  /** `shop.example.com` for `Shop.Example.com:8080`; null for addresses and for this machine. */
  #hostName(host: string): string | null {
    const name = hostNameOf(host);
    return name === null || name === this.#hostname || name.startsWith(`${this.#hostname}.`) ? null : name;
  }
}

const keyOf = (pid: number, port: number): string => `${pid} ${port}`;

function count(candidates: Candidates, name: string, requests: number): void {
  const { requests: sums } = candidates;
  if (!sums.has(name) && sums.size >= maxCandidates) dropSmallest(sums, candidates.chosen);
  sums.set(name, (sums.get(name) ?? 0) + requests);
}

/** Accepts the most requested name if it is clearly ahead, and keeps an accepted one until another one is far ahead. */
function choose(candidates: Candidates): void {
  const { requests: sums } = candidates;
  let total = candidates.nameless;
  let best = "";
  let most = 0;
  for (const [name, sum] of sums) {
    total += sum;
    if (sum <= most) continue;
    best = name;
    most = sum;
  }
  if (total > halveAt) halve(candidates);
  if (most < minRequests || most < total * minRatio) return;
  const kept = candidates.chosen === undefined ? 0 : (sums.get(candidates.chosen) ?? 0);
  if (candidates.chosen === undefined || most >= kept * replaceFactor) candidates.chosen = best;
}

function halve(candidates: Candidates): void {
  candidates.nameless /= 2;
  for (const [name, sum] of candidates.requests) candidates.requests.set(name, sum / 2);
}

function dropSmallest(sums: Map<string, number>, kept: string | undefined): void {
  let smallest: string | undefined;
  for (const [name, sum] of sums) if (name !== kept && (smallest === undefined || sum < (sums.get(smallest) ?? 0))) smallest = name;
  if (smallest !== undefined) sums.delete(smallest);
}

/** A DNS label of lowercase letters, digits, hyphens and underscores: at most 63, no hyphen at either end. */
const label = /^(?!-)[a-z0-9_-]{1,63}(?<!-)$/;

/** A Host header or SNI as a lower-case name without port; null for addresses, localhost and invalid names. */
export function hostNameOf(host: string): string | null {
  const name = host
    .trim()
    .replace(/:\d{1,5}$/, "")
    .replace(/\.$/, "")
    .toLowerCase();
  if (
    name === "" ||
    name.length > 253 ||
    parseIpv4(name) !== undefined ||
    parseIpv6(name) !== undefined ||
    !name.split(".").every((part) => label.test(part))
  )
    return null;
  if (name === "localhost" || name.endsWith(".localhost") || name.startsWith("localhost.") || name.startsWith("ip6-")) return null;
  // Other notations of addresses: 1.2.3, 2130706433, 0x7f.1
  return /^(?:0x[0-9a-f]+|\d+)$/.test(name.slice(name.lastIndexOf(".") + 1)) ? null : name;
}

/** `helloworld.Greeter`. */
function grpcName(name: string): string | null {
  return /^[A-Za-z_][\w]*(?:\.[A-Za-z_][\w]*)*$/.test(name) && name.length <= 253 ? name : null;
}
