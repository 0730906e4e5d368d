/**
 * DNS over UDP: pairs queries and replies of all sockets by id and question. On unconnected sockets the kernel knows only the destination of a
 * datagram, not its origin, so the peer is taken from whichever of the two has it. Bounded; a query without a reply for five seconds is `no-reply`.
 */

import type { LossKind } from "../core/messages.ts";
import type { FinishedRequest } from "../core/protocol-decoder.ts";
import { isDnsError, parseDnsMessage } from "../protocols/dns.ts";
import type { RequestGroups } from "../requests/request-groups.ts";
import { noReply } from "../requests/requests-in-flight.ts";
import type { PayloadRecord, StreamEnds } from "./payload-streams.ts";

interface OpenQuery {
  ends: StreamEnds;
  type: string;
  route: string;
  startNs: number;
  queueNs: number | null;
  requestBytes: number;
  /** Records of datagrams were lost while the query was open; one may have held its reply. */
  isReplyUncertain: boolean;
}

export interface DnsDatagramsOptions {
  groups: RequestGroups;
  onLoss(loss: LossKind, count: number): void;
  onRequest?: (ends: StreamEnds, request: FinishedRequest) => void;
}

/** Resolvers retry after five seconds at the latest. */
const replyTimeoutNs = 5e9;
const maxOpenQueries = 8192;

function knownAddress(record: PayloadRecord): string {
  return record.peerPort === 0 ? "" : record.peerAddress;
}

export class DnsDatagrams {
  readonly #options: DnsDatagramsOptions;
  readonly #open = new Map<string, OpenQuery[]>();
  #openCount = 0;
  #missedDatagrams = 0;

  constructor(options: DnsDatagramsOptions) {
    this.#options = options;
  }

  onDatagram(record: PayloadRecord): void {
    if (record.missedDatagrams !== undefined && record.missedDatagrams !== this.#missedDatagrams) {
      this.#missedDatagrams = record.missedDatagrams;
      for (const queries of this.#open.values()) for (const query of queries) query.isReplyUncertain = true;
    }
    const message = parseDnsMessage(record.bytes, 0, record.bytes.length);
    if (message === null) {
      this.#options.onLoss("undecoded", 1);
      return;
    }
    // Multicast DNS: queries have no single recipient and need no reply.
    if (message.id === 0 && (record.peerPort === 5353 || record.localPort === 5353)) return;
    const key = `${record.connectionId} ${message.id} ${message.type} ${message.route}`;
    if (!message.isReply) {
      this.#begin(key, record, message.type, message.route);
      return;
    }
    const query = this.#takeOpen(key, record);
    // A reply to a query that was sent before Coral started, or a duplicate.
    if (query === undefined) return;
    const atNs = Math.max(record.atNs, query.startNs);
    this.#emit(query, message.rcode, isDnsError(message.rcode), atNs, record.lengthBytes);
  }

  /** Ends queries without a reply, as undecoded if the reply may have been lost. */
  sweep(nowNs: number): void {
    for (const [key, queries] of this.#open) {
      for (const query of queries.splice(0)) {
        if (nowNs - query.startNs < replyTimeoutNs) queries.push(query);
        else {
          this.#openCount--;
          if (query.isReplyUncertain) this.#options.onLoss("undecoded", 1);
          else this.#emit(query, noReply, true, query.startNs + replyTimeoutNs, null);
        }
      }
      if (queries.length === 0) this.#open.delete(key);
    }
  }

  /** Of several open queries with the same id and question, takes the one sent to the reply's origin, else the first. */
  #takeOpen(key: string, record: PayloadRecord): OpenQuery | undefined {
    const queries = this.#open.get(key);
    if (queries === undefined) return undefined;
    const { peerPort } = record;
    const peerAddress = knownAddress(record);
    const index = queries.findIndex(
      ({ ends }) => peerPort === 0 || ends.peerPort === 0 || (ends.peerPort === peerPort && ends.peerAddress === peerAddress),
    );
    const query = queries[index];
    if (query === undefined) return undefined;
    queries.splice(index, 1);
    this.#openCount--;
    if (queries.length === 0) this.#open.delete(key);
    if (query.ends.peerPort === 0 && peerPort !== 0) {
      query.ends.peerPort = peerPort;
      query.ends.peerAddress = peerAddress;
      if (query.ends.role === "client") query.ends.serverPort = peerPort;
    }
    return query;
  }

  #begin(key: string, record: PayloadRecord, type: string, route: string): void {
    let queries = this.#open.get(key);
    const { peerPort } = record;
    const peerAddress = knownAddress(record);
    // A retry after a lost query or reply: the duration counts from the first query.
    if (queries?.some(({ ends }) => peerPort !== 0 && ends.peerPort === peerPort && ends.peerAddress === peerAddress) === true) return;
    if (this.#openCount >= maxOpenQueries) {
      this.#options.onLoss("undecoded", 1);
      return;
    }
    if (queries === undefined) {
      queries = [];
      this.#open.set(key, queries);
    }
    const isStartKnown = record.startNs > 0 && record.startNs < record.atNs;
    this.#openCount++;
    queries.push({
      ends: {
        pid: record.pid,
        role: record.isSent ? "client" : "server",
        protocol: "dns",
        isTls: false,
        serverPort: record.isSent ? record.peerPort : record.localPort,
        peerAddress,
        peerPort: record.peerPort,
        localPort: record.localPort,
        ...(record.localAddress === undefined ? {} : { localAddress: record.localAddress }),
      },
      type,
      route,
      startNs: isStartKnown ? record.startNs : record.atNs,
      queueNs: isStartKnown && !record.isSent ? record.atNs - record.startNs : null,
      requestBytes: record.lengthBytes,
      isReplyUncertain: false,
    });
  }

  #emit(query: OpenQuery, status: string, isError: boolean, endNs: number, responseBytes: number | null): void {
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
