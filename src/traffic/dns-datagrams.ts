/** DNS over UDP: queries and replies of all sockets, paired by peer and id. Bounded; what is not answered in five seconds is told as such. */

import type { LossKind } from "./messages.ts";
import type { PayloadRecord, StreamEnds } from "./payload-streams.ts";
import type { FinishedRequest } from "./protocol-decoder.ts";
import { isDnsError, parseDnsMessage } from "./protocols/dns.ts";
import type { RequestGroups } from "./request-groups.ts";
import { noReply } from "./requests-in-flight.ts";

interface OpenQuery {
  ends: StreamEnds;
  type: string;
  route: string;
  startNs: number;
  queueNs: number | null;
  requestBytes: number;
}

export interface DnsDatagramsOptions {
  groups: RequestGroups;
  onLoss(loss: LossKind, count: number): void;
  onRequest?: (ends: StreamEnds, request: FinishedRequest) => void;
}

/** Resolvers ask again after five seconds at the latest. */
const patienceNs = 5e9;
const maxOpenQueries = 8192;

export class DnsDatagrams {
  readonly #options: DnsDatagramsOptions;
  readonly #open = new Map<string, OpenQuery>();

  constructor(options: DnsDatagramsOptions) {
    this.#options = options;
  }

  onDatagram(record: PayloadRecord): void {
    const message = parseDnsMessage(record.bytes, 0, record.bytes.length);
    if (message === null) {
      this.#options.onLoss("undecoded", 1);
      return;
    }
    // Multicast DNS: nobody in particular is asked, and nobody has to answer.
    if (message.id === 0 && (record.peerPort === 5353 || record.localPort === 5353)) return;
    const peerAddress = record.peerAddress;
    const key = `${record.connectionId} ${message.id} ${record.peerPort} ${peerAddress}`;
    if (!message.isReply) {
      this.#ask(key, record, message.type, message.route, peerAddress);
      return;
    }
    const query = this.#open.get(key);
    // Asked before anybody looked, or answered a second time.
    if (query === undefined) return;
    this.#open.delete(key);
    const atNs = Math.max(record.atNs, query.startNs);
    this.#tell(query, message.rcode, isDnsError(message.rcode), atNs, record.lengthBytes);
  }

  /** Ends queries that nobody answered. */
  sweep(nowNs: number): void {
    for (const [key, query] of this.#open) {
      if (nowNs - query.startNs < patienceNs) return;
      this.#open.delete(key);
      this.#tell(query, noReply, true, query.startNs + patienceNs, null);
    }
  }

  #ask(key: string, record: PayloadRecord, type: string, route: string, peerAddress: string): void {
    // Asked again because the first datagram or its answer got lost: the time runs from the first.
    if (this.#open.has(key)) return;
    if (this.#open.size >= maxOpenQueries) {
      for (const oldest of this.#open.keys()) {
        this.#open.delete(oldest);
        this.#options.onLoss("undecoded", 1);
        break;
      }
    }
    const isStartKnown = record.startNs > 0 && record.startNs < record.atNs;
    this.#open.set(key, {
      ends: {
        pid: record.pid,
        role: record.isSent ? "client" : "server",
        protocol: "dns",
        isTls: false,
        serverPort: record.isSent ? record.peerPort : record.localPort,
        peerAddress,
        peerPort: record.peerPort,
        localPort: record.localPort,
      },
      type,
      route,
      startNs: isStartKnown ? record.startNs : record.atNs,
      queueNs: isStartKnown && !record.isSent ? record.atNs - record.startNs : null,
      requestBytes: record.lengthBytes,
    });
  }

  #tell(query: OpenQuery, status: string, isError: boolean, endNs: number, responseBytes: number | null): void {
    const durationNs = endNs - query.startNs;
    const request: FinishedRequest = {
      method: query.type,
      route: query.route,
      status,
      isError,
      durationNs,
      queueNs: query.queueNs,
      firstByteNs: responseBytes === null ? null : durationNs,
      endNs,
      requestBytes: query.requestBytes,
      responseBytes: responseBytes ?? 0,
    };
    this.#options.onRequest?.(query.ends, request);
    this.#options.groups.add(this.#options.groups.endpoint(query.ends), request);
  }
}
