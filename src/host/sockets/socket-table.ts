/** `/proc/<pid>/net/tcp`, `tcp6`, `udp` and `udp6`, read from bytes: a busy server has tens of thousands of lines. */

import { type AddressTexts, createAddressTexts } from "../../base/ip-address.ts";
import type { HostRoot, ReadTally } from "../files/host-root.ts";
import { type SocketView, socketStates, type VisitSocket } from "./socket-source.ts";

const colon = 0x3a;
const blank = 0x20;
const lineEnd = 0x0a;
/** A line is about 150 bytes; without line ends this is not the file we know. */
const maxLineBytes = 4096;

const hexValues = new Int8Array(256).fill(-1);
for (const [index, digit] of [..."0123456789abcdef"].entries()) {
  hexValues[digit.charCodeAt(0)] = index;
  hexValues[digit.toUpperCase().charCodeAt(0)] = index;
}

/** -1 for anything but hex digits. */
function hexAt(bytes: Uint8Array, start: number, digits: number): number {
  let value = 0;
  for (let index = start; index < start + digits; index++) {
    const digit = hexValues[bytes[index] ?? 0] ?? -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

/** Where the next decimal number ends, with its value; NaN when there is none. */
function decimalAt(bytes: Uint8Array, start: number, end: number): { value: number; next: number } {
  let index = start;
  while (index < end && bytes[index] === blank) index++;
  let value = index < end ? 0 : Number.NaN;
  for (; index < end && bytes[index] !== blank; index++) {
    const digit = (bytes[index] ?? 0) - 0x30;
    if (digit < 0 || digit > 9) return { value: Number.NaN, next: index };
    value = value * 10 + digit;
  }
  return { value, next: index };
}

/** The current line. */
class TableLine implements SocketView {
  inode = 0;
  state = 0;
  localPort = 0;
  remotePort = 0;
  userId = 0;
  /** Text tables have no counters; netlink does. */
  readonly bytesSent = null;
  readonly bytesReceived = null;
  readonly rttUs = null;
  readonly retransmits = null;
  readonly #texts: AddressTexts;
  #bytes: Uint8Array = new Uint8Array(0);
  #addressDigits = 8;
  #localStart = 0;
  #remoteStart = 0;

  constructor(texts: AddressTexts) {
    this.#texts = texts;
  }

  /** False for the heading and for damaged lines. `end` is exclusive. */
  read(bytes: Uint8Array, start: number, end: number): boolean {
    const local = bytes.indexOf(colon, start) + 2;
    if (local < 2 || local > start + 16) return false;
    const digits = bytes[local + 8] === colon ? 8 : bytes[local + 32] === colon ? 32 : 0;
    const remote = local + digits + 6;
    const state = remote + digits + 6;
    if (digits === 0 || bytes[remote + digits] !== colon || bytes[remote - 1] !== blank || bytes[state - 1] !== blank) return false;
    this.localPort = hexAt(bytes, local + digits + 1, 4);
    this.remotePort = hexAt(bytes, remote + digits + 1, 4);
    this.state = hexAt(bytes, state, 2);
    // Queues, timer and retransmissions have fixed widths; then come user, timeout and inode.
    const user = decimalAt(bytes, state + 42, end);
    const timeout = decimalAt(bytes, user.next, end);
    this.userId = user.value;
    this.inode = decimalAt(bytes, timeout.next, end).value;
    this.#bytes = bytes;
    this.#addressDigits = digits;
    this.#localStart = local;
    this.#remoteStart = remote;
    return this.#isSane();
  }

  #isSane(): boolean {
    const hasNumbers = this.localPort >= 0 && this.remotePort >= 0 && this.state > 0;
    const areSafe = Number.isSafeInteger(this.userId) && Number.isSafeInteger(this.inode);
    return hasNumbers && areSafe && hexAt(this.#bytes, this.#localStart, 8) >= 0 && hexAt(this.#bytes, this.#remoteStart, 8) >= 0;
  }

  localAddress(): string {
    return this.#addressAt(this.#localStart);
  }

  remoteAddress(): string {
    return this.#addressAt(this.#remoteStart);
  }

  #addressAt(start: number): string {
    const word = (index: number): number => Math.max(0, hexAt(this.#bytes, start + index * 8, 8));
    return this.#addressDigits === 8 ? this.#texts.ipv4(word(0)) : this.#texts.ipv6(word(0), word(1), word(2), word(3));
  }
}

const texts = createAddressTexts();

/** A half-open connection; kernels before 4.4 print those among the listeners. */
const synReceived = 3;

/**
 * Visits the sockets in the wanted states. The kernel prints all TCP listeners before the first connection, so when only those are wanted
 * reading stops there: a server with 100,000 connections costs no more than an idle one. False when the file cannot be read.
 */
export function readSocketTable(root: HostRoot, path: string, states: readonly number[], visit: VisitSocket, tally: ReadTally): boolean {
  const line = new TableLine(texts);
  const listenersOnly = states.length === 1 && states[0] === socketStates.listen;
  const wanted = new Set(states);
  let isDone = false;
  const take = (bytes: Uint8Array, start: number, end: number): void => {
    if (!line.read(bytes, start, end)) return;
    if (wanted.has(line.state)) visit(line);
    else if (listenersOnly && line.state !== synReceived) isDone = true;
  };
  let rest = Buffer.alloc(0);
  const wasRead = root.readPieces(
    path,
    (piece) => {
      let start = 0;
      for (let end = piece.indexOf(lineEnd); end >= 0 && !isDone; end = piece.indexOf(lineEnd, start)) {
        if (rest.length === 0) take(piece, start, end);
        else {
          const whole = Buffer.concat([rest, piece.subarray(0, end)]);
          rest = Buffer.alloc(0);
          take(whole, 0, whole.length);
        }
        start = end + 1;
      }
      const left = rest.length + piece.length - start;
      // The next chunk overwrites this one, so copy the rest of it.
      rest = isDone || left > maxLineBytes ? Buffer.alloc(0) : Buffer.concat([rest, piece.subarray(start)]);
      return !isDone;
    },
    tally,
  );
  if (!isDone && rest.length > 0) take(rest, 0, rest.length);
  return wasRead;
}
