/** Reads `struct payload_record` of probes/requests/ring.h in place, in the ring. */

import { formatIpv6, withoutMapping } from "../../base/ip-address.ts";
import { protocolOfNumber, type TrafficProtocol } from "../../model/protocols.ts";
import type { TrafficRole } from "../core/messages.ts";
import type { MissedRecords, PayloadRecord } from "../streams/payload-streams.ts";

export const recordKinds = { learn: 1, payload: 2, closed: 3 } as const;

/** Offsets of the fields; a test compares them with the BTF of the object. */
export const payloadRecordLayout = {
  sizeBytes: 96,
  kind: 0,
  protocol: 1,
  role: 2,
  flags: 3,
  direction: 4,
  missed: 5,
  bytes: 6,
  connection: 8,
  tgid: 12,
  at_ns: 16,
  start_ns: 24,
  length: 32,
  offset: 36,
  local_port: 40,
  remote_port: 42,
  missed_datagrams: 44,
  local: 48,
  remote: 64,
  comm: 80,
} as const;

const flags = { tls: 1, udp: 2, capture: 4, prepared: 16 } as const;
const noBytes = Buffer.alloc(0);
/** By the bits of `missed`. */
const missedRecords: readonly MissedRecords[] = [0, 1, 2, 3].map((bits) => ({ received: (bits & 1) !== 0, sent: (bits & 2) !== 0 }));

/** A view that is reused for all records: its fields change with each `read`. */
export class PayloadRecordView implements PayloadRecord {
  connectionId = 0;
  pid = 0;
  isSent = false;
  isTls = false;
  isDatagram = false;
  /** A copy for a capture; the payload is counted separately. */
  isCapture = false;
  isPrepared = false;
  missed: MissedRecords | undefined = missedRecords[0];
  /** The same for copies of a capture. */
  missedCopies: MissedRecords | undefined = missedRecords[0];
  missedDatagrams = 0;
  protocol: TrafficProtocol | null = null;
  role: TrafficRole | null = null;
  localPort = 0;
  peerPort = 0;
  atNs = 0;
  startNs = 0;
  lengthBytes = 0;
  offsetBytes = 0;
  bytes: Buffer = noBytes;
  #ring: Buffer = noBytes;
  #at = 0;

  /** False for a truncated record. */
  read(view: DataView, at: number, length: number, ring: Buffer): boolean {
    const layout = payloadRecordLayout;
    if (length < layout.sizeBytes) return false;
    const byteCount = view.getUint16(at + layout.bytes, true);
    if (length < layout.sizeBytes + byteCount) return false;
    const flagBits = view.getUint8(at + layout.flags);
    const role = view.getUint8(at + layout.role);
    this.#ring = ring;
    this.#at = at;
    this.protocol = protocolOfNumber(view.getUint8(at + layout.protocol)) ?? null;
    this.role = role === 1 ? "server" : role === 2 ? "client" : null;
    this.isTls = (flagBits & flags.tls) !== 0;
    this.isDatagram = (flagBits & flags.udp) !== 0;
    this.isCapture = (flagBits & flags.capture) !== 0;
    this.isPrepared = (flagBits & flags.prepared) !== 0;
    this.isSent = view.getUint8(at + layout.direction) === 1;
    const missed = view.getUint8(at + layout.missed);
    this.missedCopies = missedRecords[(missed >> 2) & 3];
    this.missed = this.isCapture ? this.missedCopies : missedRecords[missed & 3];
    this.missedDatagrams = view.getUint32(at + layout.missed_datagrams, true);
    this.connectionId = view.getUint32(at + layout.connection, true);
    this.pid = view.getUint32(at + layout.tgid, true);
    this.atNs = nanoseconds(view, at + layout.at_ns);
    this.startNs = nanoseconds(view, at + layout.start_ns);
    this.lengthBytes = view.getUint32(at + layout.length, true);
    this.offsetBytes = view.getUint32(at + layout.offset, true);
    this.localPort = view.getUint16(at + layout.local_port, true);
    this.peerPort = view.getUint16(at + layout.remote_port, true);
    this.bytes = byteCount === 0 ? noBytes : ring.subarray(at + layout.sizeBytes, at + layout.sizeBytes + byteCount);
    return true;
  }

  get peerAddress(): string {
    return this.#address(payloadRecordLayout.remote);
  }

  get localAddress(): string {
    return this.#address(payloadRecordLayout.local);
  }

  #address(offset: number): string {
    return withoutMapping(formatIpv6(this.#ring.subarray(this.#at + offset, this.#at + offset + 16)));
  }
}

/** Exact for the first hundred days after boot, and to two nanoseconds after that; avoids a BigInt per record. */
function nanoseconds(view: DataView, at: number): number {
  return view.getUint32(at + 4, true) * 2 ** 32 + view.getUint32(at, true);
}
