/** Parses the messages of a sock_diag dump: struct inet_diag_msg with its attributes. Pure. */

import { endianness } from "node:os";
import { createAddressTexts } from "../base/ip-address.ts";

/** One socket, valid during the visit. */
export interface SockDiagView {
  readonly inode: number;
  readonly state: number;
  readonly localPort: number;
  readonly remotePort: number;
  readonly userId: number;
  /** Payload bytes sent at least once. Null for UDP, listeners, and kernels that do not report it. */
  readonly bytesSent: number | null;
  readonly bytesReceived: number | null;
  /** Smoothed; null before the first measurement. */
  readonly rttUs: number | null;
  readonly retransmits: number | null;
  /** IPv4-mapped addresses are IPv4. */
  localAddress(): string;
  remoteAddress(): string;
}

const NLMSG_ERROR = 2;
const NLMSG_DONE = 3;
const INET_DIAG_INFO = 2;
const AF_INET = 2;
const headerBytes = 16;
const messageBytes = 72;
const listenState = 10;
const isLittleEndian = endianness() === "LE";
const texts = createAddressTexts();

// struct tcp_info of <linux/tcp.h>: new fields are only added at its end.
const tcpInfo = { rtt: 68, totalRetransmits: 100, bytesAcked: 120, bytesReceived: 128, bytesSent: 200, bytesRetransmitted: 208 } as const;

export interface SockDiagPart {
  isLast: boolean;
  /** 0, or the errno of the kernel's refusal. */
  errno: number;
}

/** Messages are in host byte order, except ports and addresses. */
export class SockDiagMessage implements SockDiagView {
  inode = 0;
  state = 0;
  localPort = 0;
  remotePort = 0;
  userId = 0;
  bytesSent: number | null = null;
  bytesReceived: number | null = null;
  rttUs: number | null = null;
  retransmits: number | null = null;
  #view: DataView = new DataView(new ArrayBuffer(0));
  #start = 0;

  localAddress(): string {
    return this.#addressAt(this.#start + 8);
  }

  remoteAddress(): string {
    return this.#addressAt(this.#start + 24);
  }

  /** Visits the sockets in the first `length` bytes. Stops at an invalid length. */
  read(bytes: Uint8Array, length: number, visit: (socket: SockDiagView) => void): SockDiagPart {
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, Math.min(length, bytes.byteLength));
    const view = this.#view;
    if (view.byteLength < headerBytes) return { isLast: true, errno: 0 };
    for (let offset = 0; offset + headerBytes <= view.byteLength; ) {
      const size = view.getUint32(offset, isLittleEndian);
      const type = view.getUint16(offset + 4, isLittleEndian);
      if (size < headerBytes || offset + size > view.byteLength) return { isLast: true, errno: 0 };
      if (type === NLMSG_DONE) return { isLast: true, errno: this.#statusAt(offset, size) };
      if (type === NLMSG_ERROR) return { isLast: true, errno: this.#statusAt(offset, size) };
      if (size >= headerBytes + messageBytes && this.#readSocket(offset + headerBytes, offset + size)) visit(this);
      offset += (size + 3) & ~3;
    }
    return { isLast: false, errno: 0 };
  }

  #statusAt(offset: number, size: number): number {
    const status = size >= headerBytes + 4 ? this.#view.getInt32(offset + headerBytes, isLittleEndian) : 0;
    return status < 0 ? -status : 0;
  }

  #readSocket(start: number, end: number): boolean {
    const view = this.#view;
    this.#start = start;
    this.state = view.getUint8(start + 1);
    this.localPort = view.getUint16(start + 4);
    this.remotePort = view.getUint16(start + 6);
    this.userId = view.getUint32(start + 64, isLittleEndian);
    this.inode = view.getUint32(start + 68, isLittleEndian);
    this.bytesSent = null;
    this.bytesReceived = null;
    this.rttUs = null;
    this.retransmits = null;
    if (this.state !== listenState) this.#readAttributes(start + messageBytes, end);
    return true;
  }

  #readAttributes(start: number, end: number): void {
    for (let offset = start; offset + 4 <= end; ) {
      const size = this.#view.getUint16(offset, isLittleEndian);
      if (size < 4 || offset + size > end) return;
      if (this.#view.getUint16(offset + 2, isLittleEndian) === INET_DIAG_INFO) this.#readTcpInfo(offset + 4, size - 4);
      offset += (size + 3) & ~3;
    }
  }

  #readTcpInfo(start: number, size: number): void {
    const has = (offset: number, bytes: number): boolean => offset + bytes <= size;
    const uint32 = (offset: number): number => this.#view.getUint32(start + offset, isLittleEndian);
    const uint64 = (offset: number): number => {
      const [low, high] = isLittleEndian ? [uint32(offset), uint32(offset + 4)] : [uint32(offset + 4), uint32(offset)];
      return Math.min(Number.MAX_SAFE_INTEGER, high * 2 ** 32 + low);
    };
    if (has(tcpInfo.rtt, 4)) this.rttUs = uint32(tcpInfo.rtt) || null;
    if (has(tcpInfo.totalRetransmits, 4)) this.retransmits = uint32(tcpInfo.totalRetransmits);
    if (has(tcpInfo.bytesReceived, 8)) this.bytesReceived = uint64(tcpInfo.bytesReceived);
    // Since Linux 4.19; acknowledged bytes, the older measure, count the handshake as one byte.
    if (has(tcpInfo.bytesRetransmitted, 8)) this.bytesSent = Math.max(0, uint64(tcpInfo.bytesSent) - uint64(tcpInfo.bytesRetransmitted));
    else if (has(tcpInfo.bytesAcked, 8)) this.bytesSent = Math.max(0, uint64(tcpInfo.bytesAcked) - 1);
  }

  #addressAt(offset: number): string {
    const word = (index: number): number => this.#view.getUint32(offset + index * 4, isLittleEndian);
    return this.#view.getUint8(this.#start) === AF_INET ? texts.ipv4(word(0)) : texts.ipv6(word(0), word(1), word(2), word(3));
  }
}
