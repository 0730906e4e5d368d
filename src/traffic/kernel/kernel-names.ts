/**
 * Names of the fingerprints in the kernel's table. The kernel emits each once, in a LEARN record with the head of a request, of which only templates
 * are kept. Bounded by the kernel's `learned` map: see `KernelTable`.
 */

import { formatIpv6, withoutMapping } from "../../base/ip-address.ts";
import { protocolOfNumber, type TrafficProtocol } from "../../model/protocols.ts";
import { sqlTemplate } from "../../redact/index.ts";
import type { TrafficRole } from "../core/messages.ts";
import { methodName, parseRequestHead } from "../protocols/http/http1-head.ts";
import { redisErrorWord, redisNames } from "../protocols/redis.ts";
import { createRouteTemplater, unknownRoute } from "../requests/route-template.ts";
import { learnRecordLayout } from "./kernel-layout.ts";

export interface KernelName {
  method: string;
  route: string;
}

interface KnownName extends KernelName {
  protocol: TrafficProtocol;
}

export interface KernelNamesOptions {
  /** Names kept. Default 8192, the size of the kernel's `learned` map. */
  maxNames?: number;
}

/** A complete LEARN record. */
export interface LearnRecord {
  protocol: TrafficProtocol;
  role: TrafficRole;
  serverPort: number;
  pid: number;
  /** 0: the bytes are a request; else those of a response with this status. */
  status: number;
  fingerprint: bigint;
  peerAddress: string;
  /** In the ring: valid during the call only. */
  bytes: Buffer;
}

/** Null for a truncated record or an unknown protocol. */
export function decodeLearnRecord(view: DataView, at: number, length: number, ring: Buffer): LearnRecord | null {
  const layout = learnRecordLayout;
  if (length < layout.sizeBytes) return null;
  const byteCount = view.getUint16(at + layout.bytes, true);
  const protocol = protocolOfNumber(view.getUint8(at + layout.protocol));
  if (length < layout.sizeBytes + byteCount || protocol === undefined) return null;
  return {
    protocol,
    role: view.getUint8(at + layout.role) === 1 ? "server" : "client",
    serverPort: view.getUint16(at + layout.server_port, true),
    pid: view.getUint32(at + layout.tgid, true),
    status: view.getUint32(at + layout.status, true),
    fingerprint: view.getBigUint64(at + layout.fingerprint, true),
    peerAddress: addressText(ring.subarray(at + layout.remote, at + layout.remote + 16)),
    bytes: ring.subarray(at + layout.sizeBytes, at + layout.sizeBytes + byteCount),
  };
}

/** Canonical text of an address in the kernel's 16 bytes, where IPv4 is mapped into IPv6. */
export function addressText(bytes: Uint8Array): string {
  return withoutMapping(formatIpv6(bytes));
}

const maxStatuses = 512;

export class KernelNames {
  readonly #names = new Map<bigint, KnownName>();
  readonly #statuses = new Map<number, string>();
  readonly #hosts = new Map<string, string>();
  readonly #template = createRouteTemplater();
  readonly #maxNames: number;

  constructor(options: KernelNamesOptions = {}) {
    this.#maxNames = options.maxNames ?? 8192;
  }

  get size(): number {
    return this.#names.size;
  }

  /** False when nothing could be learned from it. */
  learn(record: LearnRecord): boolean {
    if (record.status !== 0) {
      if (this.#statuses.size < maxStatuses) this.#statuses.set(record.status, statusText(record));
      return true;
    }
    const { name, host } = nameOf(record, this.#template);
    if (!this.#names.has(record.fingerprint) && this.#names.size >= this.#maxNames) this.#dropOldest(this.#names);
    this.#names.set(record.fingerprint, { ...name, protocol: record.protocol });
    if (host !== null) {
      if (this.#hosts.size >= this.#maxNames) this.#dropOldest(this.#hosts);
      this.#hosts.set(hostKey(record.fingerprint, record.pid, record.role, record.serverPort, record.peerAddress), host);
    }
    return name.route !== unknownRoute;
  }

  name(fingerprint: bigint): KernelName | undefined {
    return this.#names.get(fingerprint);
  }

  status(status: number): string | undefined {
    return this.#statuses.get(status);
  }

  /** The host that such requests name; undefined without one. */
  host(fingerprint: bigint, pid: number, role: TrafficRole, serverPort: number, peerAddress: string): string | undefined {
    return this.#hosts.get(hostKey(fingerprint, pid, role, serverPort, peerAddress));
  }

  /** Undefined for an unknown fingerprint. */
  protocol(fingerprint: bigint): TrafficProtocol | undefined {
    return this.#names.get(fingerprint)?.protocol;
  }

  forget(fingerprint: bigint): void {
    this.#names.delete(fingerprint);
  }

  #dropOldest<K>(map: Map<K, unknown>): void {
    for (const key of map.keys()) {
      map.delete(key);
      return;
    }
  }
}

/** The kernel emits names of servers once per process and port, those of clients also per address. */
function hostKey(fingerprint: bigint, pid: number, role: TrafficRole, serverPort: number, peerAddress: string): string {
  return role === "client" ? `${fingerprint} ${pid} ${serverPort} ${peerAddress}` : `${fingerprint} ${pid} ${serverPort}`;
}

interface Learned {
  name: KernelName;
  host: string | null;
}

const unknown: Learned = { name: { method: "", route: unknownRoute }, host: null };

function nameOf({ protocol, bytes }: LearnRecord, template: (target: string, isCut?: boolean) => string): Learned {
  if (protocol === "http") {
    const head = parseRequestHead(bytes);
    if (head === null) return unknown;
    const route = template(head.target, head.isTargetCut);
    return { name: { method: methodName(head.method), route }, host: head.host };
  }
  if (protocol === "redis") return { name: redisName(bytes), host: null };
  if (protocol === "postgres") return { name: postgresName(bytes), host: null };
  return unknown;
}

/** `*2\r\n$3\r\nGET\r\n…`, or the words of an inline command. Keys are never read: the second word counts only for commands of two words. */
function redisName(bytes: Buffer): KernelName {
  const text = bytes.toString("latin1");
  const words = /^\*\d+\r\n\$\d+\r\n([^\r]*)(?:\r\n\$\d+\r\n([^\r]*))?/.exec(text) ?? /^([A-Za-z.]+)(?: +([A-Za-z]+))?/.exec(text);
  return redisNames(words?.[1] ?? "", words?.[2] ?? "");
}

/** The first Query or Parse message of a payload. */
function postgresName(bytes: Buffer): KernelName {
  let at = 0;
  while (at + 5 <= bytes.length) {
    const type = bytes[at];
    const size = bytes.readUInt32BE(at + 1);
    if (type === 0x51 || type === 0x50) {
      let from = at + 5;
      // Parse names its statement first.
      if (type === 0x50) from = bytes.indexOf(0, from) + 1;
      if (from === 0) break;
      const end = bytes.indexOf(0, from);
      const isCut = end < 0;
      const { verb, template } = sqlTemplate(bytes.toString("utf8", from, isCut ? bytes.length : end), { isCut });
      return { method: verb, route: template === "" ? unknownRoute : template };
    }
    at += 1 + size;
  }
  return unknown.name;
}

function statusText({ protocol, bytes }: LearnRecord): string {
  // "-WRONGTYPE Operation against …": only the first word may be kept.
  return protocol === "redis" ? redisErrorWord(bytes.toString("latin1", 1)) : "error";
}
