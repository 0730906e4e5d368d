/**
 * Connections whose payloads come through the ring buffer, each with the decoder of its protocol. Decoded requests are added to the groups of the
 * window. The number of connections is bounded: the least recently used is evicted, and counted.
 */

import type { TrafficProtocol } from "../../model/protocols.ts";
import type { LossKind, TrafficRole } from "../core/messages.ts";
import type { Chunk, DecoderFactory, FinishedRequest, ProtocolDecoder, Recognition, RequestSink } from "../core/protocol-decoder.ts";
import type { Endpoint, EndpointGroups, RequestGroups } from "../requests/request-groups.ts";
import { DnsDatagrams } from "./dns-datagrams.ts";

/** A payload record of the ring (`struct payload_record` in probes/requests/ring.h). Valid during the call: the reader may reuse one object for all records. */
export interface PayloadRecord {
  /** Never reused. */
  connectionId: number;
  pid: number;
  /** Sent by the process, else received. */
  isSent: boolean;
  /** Plaintext of a TLS connection. */
  isTls: boolean;
  /** UDP: each record is a separate message, and a socket may have many peers. */
  isDatagram: boolean;
  /** As classified by the kernel; null: recognise it by the bytes. */
  protocol: TrafficProtocol | null;
  /** Null: recognise it by the bytes. */
  role: TrafficRole | null;
  localPort: number;
  peerPort: number;
  /** Canonical text, empty when unknown. Read once per connection, so a getter may build it. */
  readonly peerAddress: string;
  /** As `peerAddress`, for the local end. */
  readonly localAddress?: string;
  /** CLOCK_MONOTONIC. */
  atNs: number;
  /** Received: arrival; sent: start of the call. 0: unknown. */
  startNs: number;
  /** Of the whole payload. */
  lengthBytes: number;
  /** Offset of `bytes` in the payload: a long one spans several records. */
  offsetBytes: number;
  bytes: Buffer;
  /** Only for the statements it prepares, which later payloads may name; its requests are counted in the kernel. Default false. */
  isPrepared?: boolean;
  /** Default: none. */
  missed?: MissedRecords | undefined;
  /** Datagrams: records lost so far, over all sockets. Default 0. */
  missedDatagrams?: number;
}

/** Whether records of received or sent payloads of the connection were lost before this one, because the ring was full. */
export interface MissedRecords {
  received: boolean;
  sent: boolean;
}

/** A record of this size is followed by another one of the same payload, up to `maxPieces` of them (CHUNK_BYTES in probes/requests/payload.h). */
const pieceBytes = 4096;

/** Both ends of a connection, for consumers of single requests. */
export interface StreamEnds extends Endpoint {
  peerPort: number;
  localPort: number;
  localAddress?: string;
}

export interface PayloadStreamsOptions {
  groups: RequestGroups;
  decoders: Partial<Record<TrafficProtocol, DecoderFactory>>;
  /** Finds protocol and direction of a payload that the kernel did not classify. */
  recognise(bytes: Buffer, lengthBytes: number, hint: TrafficProtocol | null): Recognition | null;
  onLoss(loss: LossKind, count: number): void;
  /** Called with every request before it is summed. */
  onRequest?: (ends: StreamEnds, request: FinishedRequest) => void;
  /** Whether decoders keep the details of this process's requests. Default: never. */
  isCapturing?: (pid: number) => boolean;
  /** Default 16384. */
  maxConnections?: number;
  /** Most records per payload. Default 8: MAX_CHUNKS in probes/requests/payload.h. */
  maxPieces?: number;
}

const noBytes = Buffer.alloc(0);
/** A response is complete after this idle time. */
const quietNs = 1e9;
/** Payloads of a connection that are tried before it counts as unknown. */
const maxUnknownPayloads = 8;
/** Consecutive undecoded requests after which the decoder counts as the wrong one. */
const maxUndecodedInARow = 64;
/** Additional undecoded requests allowed after lost records: as many as a decoder holds. */
const maxSkippedByLoss = 8192;

class Connection implements RequestSink {
  readonly ends: StreamEnds;
  readonly #owner: PayloadStreamsOptions;
  #groups: EndpointGroups | null = null;
  #undecodedInARow = 0;
  decoder: ProtocolDecoder | null = null;
  unknownPayloads = 0;
  isGivenUp = false;
  isQuiet = true;
  /** Used since eviction last considered it. */
  isUsed = true;
  lastNs = 0;
  /** Bytes of the last payload that further records should bring, and their offset in it, for either direction. */
  readonly awaited: [received: number, sent: number] = [0, 0];
  readonly awaitedFrom: [received: number, sent: number] = [0, 0];

  constructor(owner: PayloadStreamsOptions, ends: StreamEnds) {
    this.#owner = owner;
    this.ends = ends;
  }

  finished(request: FinishedRequest): void {
    this.#undecodedInARow = 0;
    this.#owner.onRequest?.(this.ends, request);
    this.#groups ??= this.#owner.groups.endpoint(this.ends);
    this.#owner.groups.add(this.#groups, request);
  }

  undecoded(count: number): void {
    this.#owner.onLoss("undecoded", count);
    this.#undecodedInARow += count;
    // HTTP/2 is recognised reliably, and a few lost records may take many of its streams with them.
    if (this.#undecodedInARow >= maxUndecodedInARow && this.ends.protocol !== "http2") this.giveUp();
  }

  /** Records were lost: requests skipped because of that do not mean that the decoder is wrong. */
  onMissed(missed: MissedRecords, atNs: number): void {
    this.#undecodedInARow = -maxSkippedByLoss;
    this.awaited.fill(0);
    this.awaitedFrom.fill(0);
    const isClient = this.ends.role === "client";
    if (isClient ? missed.sent : missed.received) this.decoder?.onMissed("requests", atNs);
    if (isClient ? missed.received : missed.sent) this.decoder?.onMissed("replies", atNs);
  }

  giveUp(): void {
    if (this.isGivenUp) return;
    this.isGivenUp = true;
    this.#owner.onLoss("unknown-protocol", 1);
  }
}

function hasMissed(missed: MissedRecords | undefined): missed is MissedRecords {
  return missed !== undefined && (missed.received || missed.sent);
}

export class PayloadStreams {
  readonly #options: PayloadStreamsOptions;
  readonly #maxConnections: number;
  readonly #maxPieces: number;
  readonly #connections = new Map<number, Connection>();
  readonly #datagrams: DnsDatagrams;
  readonly #chunk: Chunk = { bytes: noBytes, fullLength: 0, atNs: 0, startNs: 0 };

  constructor(options: PayloadStreamsOptions) {
    this.#options = options;
    this.#maxConnections = options.maxConnections ?? 16_384;
    this.#maxPieces = options.maxPieces ?? 8;
    this.#datagrams = new DnsDatagrams(options);
  }

  get connectionCount(): number {
    return this.#connections.size;
  }

  onPayload(record: PayloadRecord): void {
    if (record.isDatagram) {
      this.#datagrams.onDatagram(record);
      return;
    }
    const connection = this.#connectionOf(record);
    // Ciphertext; the plaintext has separate records.
    if (connection.ends.isTls && !record.isTls) return;
    connection.isUsed = true;
    connection.lastNs = record.atNs;
    connection.isQuiet = false;
    if (connection.isGivenUp) return;
    const decoder = connection.decoder ?? this.#start(connection, record);
    if (decoder === null) return;
    if (hasMissed(record.missed)) connection.onMissed(record.missed, record.atNs);
    const isRequest = record.isSent === (connection.ends.role === "client");
    if (record.isPrepared === true) {
      decoder.onPrepared?.(record.bytes, record.lengthBytes > record.bytes.length);
      return;
    }
    this.#deliver(decoder, connection, record, isRequest);
    if (connection.isGivenUp) connection.decoder = null;
  }

  onClose(connectionId: number, atNs: number, missed?: MissedRecords): void {
    const connection = this.#connections.get(connectionId);
    if (connection === undefined) return;
    if (hasMissed(missed)) connection.onMissed(missed, atNs);
    this.#connections.delete(connectionId);
    connection.decoder?.onClose(atNs);
  }

  /** Call about once a second: completes the responses of idle connections. */
  sweep(nowNs: number): void {
    for (const connection of this.#connections.values()) {
      if (connection.isQuiet || nowNs - connection.lastNs < quietNs) continue;
      connection.isQuiet = true;
      connection.decoder?.onIdle();
    }
    this.#datagrams.sweep(nowNs);
  }

  #connectionOf(record: PayloadRecord): Connection {
    const known = this.#connections.get(record.connectionId);
    if (known !== undefined) {
      if (known.ends.isTls || !record.isTls) return known;
      // The connection was upgraded to TLS, and its plaintext can be read.
      this.#forget(record.connectionId, known);
    }
    if (this.#connections.size >= this.#maxConnections) this.#forgetUnused();
    const connection = new Connection(this.#options, {
      pid: record.pid,
      role: "client",
      protocol: record.protocol ?? "http",
      isTls: record.isTls,
      serverPort: 0,
      peerAddress: record.peerAddress,
      peerPort: record.peerPort,
      localPort: record.localPort,
      ...(record.localAddress === undefined ? {} : { localAddress: record.localAddress }),
    });
    this.#connections.set(record.connectionId, connection);
    return connection;
  }

  /** Chooses the decoder by the protocol of the bytes, and the role by the direction of the request. */
  #start(connection: Connection, record: PayloadRecord): ProtocolDecoder | null {
    const recognition = this.#recognise(record);
    const factory = recognition === null ? undefined : this.#options.decoders[recognition.protocol];
    if (recognition === null || factory === undefined) {
      if (++connection.unknownPayloads >= maxUnknownPayloads) connection.giveUp();
      return null;
    }
    const { role } = recognition;
    connection.ends.role = role;
    connection.ends.protocol = recognition.protocol;
    connection.ends.serverPort = role === "client" ? record.peerPort : record.localPort;
    connection.decoder = factory({
      sink: connection,
      role,
      isCapturing: () => this.#options.isCapturing?.(connection.ends.pid) === true,
    });
    return connection.decoder;
  }

  #recognise(record: PayloadRecord): { protocol: TrafficProtocol; role: TrafficRole } | null {
    if (record.protocol !== null && record.role !== null) return { protocol: record.protocol, role: record.role };
    const recognition = this.#options.recognise(record.bytes, record.lengthBytes, record.protocol);
    if (recognition === null) return null;
    const { protocol, isRequest } = recognition;
    return { protocol, role: record.role ?? (isRequest === record.isSent ? "client" : "server") };
  }

  #deliver(decoder: ProtocolDecoder, connection: Connection, record: PayloadRecord, isRequest: boolean): void {
    const chunk = this.#chunk;
    const side = record.isSent ? 1 : 0;
    chunk.atNs = record.atNs;
    chunk.startNs = record.startNs;
    const missingBytes = record.offsetBytes === 0 ? connection.awaited[side] : record.offsetBytes - connection.awaitedFrom[side];
    if (missingBytes > 0) {
      chunk.bytes = noBytes;
      chunk.fullLength = missingBytes;
      if (isRequest) decoder.onRequestBytes(chunk);
      else decoder.onReplyBytes(chunk);
    }
    const leftBytes = Math.max(0, record.lengthBytes - record.offsetBytes - record.bytes.length);
    const isContinued = record.bytes.length === pieceBytes && record.offsetBytes < pieceBytes * (this.#maxPieces - 1);
    connection.awaited[side] = isContinued ? leftBytes : 0;
    connection.awaitedFrom[side] = isContinued ? record.offsetBytes + record.bytes.length : 0;
    chunk.bytes = record.bytes;
    chunk.fullLength = record.bytes.length + (isContinued ? 0 : leftBytes);
    if (isRequest) decoder.onRequestBytes(chunk);
    else decoder.onReplyBytes(chunk);
  }

  #forgetUnused(): void {
    let tries = 0;
    for (const [connectionId, connection] of this.#connections) {
      if (connection.isUsed && ++tries <= 32) {
        connection.isUsed = false;
        this.#connections.delete(connectionId);
        this.#connections.set(connectionId, connection);
        continue;
      }
      this.#options.onLoss("connections-full", 1);
      this.#forget(connectionId, connection);
      return;
    }
  }

  #forget(connectionId: number, connection: Connection): void {
    this.#connections.delete(connectionId);
    connection.decoder?.onClose(null);
  }
}
