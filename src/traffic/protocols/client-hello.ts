/**
 * Parses a TLS ClientHello: server name and offered protocols. Records may split the message anywhere, and it may be truncated.
 */

import { hostName } from "./http/http1-head.ts";

export interface ClientHello {
  /** Server name in lower case; null if there is none, or it is truncated. */
  serverName: string | null;
  /** Offered by ALPN, such as `h2`. */
  protocols: string[];
  /** False if the message is truncated. */
  isComplete: boolean;
}

const handshakeRecord = 22;
const clientHello = 1;
const serverNameExtension = 0;
const alpnExtension = 16;
/** Bytes of the message that are parsed. */
const maxMessageBytes = 16_384;
const maxProtocols = 16;
const maxExtensions = 128;

/** Reads bytes in order; after their end every read returns null. */
class Cursor {
  readonly #bytes: Buffer;
  readonly #end: number;
  #at: number;

  constructor(bytes: Buffer, at = 0, end = bytes.length) {
    this.#bytes = bytes;
    this.#at = at;
    this.#end = Math.min(end, bytes.length);
  }

  get left(): number {
    return this.#end - this.#at;
  }

  /** Big-endian; null past the end. */
  number(byteCount: 1 | 2 | 3): number | null {
    if (this.left < byteCount) {
      this.#at = this.#end;
      return null;
    }
    const value = this.#bytes.readUIntBE(this.#at, byteCount);
    this.#at += byteCount;
    return value;
  }

  skip(byteCount: number): void {
    this.#at = Math.min(this.#at + byteCount, this.#end);
  }

  /** The next bytes as their own cursor, truncated if these are. */
  part(byteCount: number): Cursor {
    const part = new Cursor(this.#bytes, this.#at, Math.min(this.#at + byteCount, this.#end));
    this.skip(byteCount);
    return part;
  }

  text(byteCount: number): string | null {
    if (this.left < byteCount) return null;
    const text = this.#bytes.toString("latin1", this.#at, this.#at + byteCount);
    this.#at += byteCount;
    return text;
  }
}

/** The concatenated payloads of handshake records. Null if the bytes are none. */
function readHandshake(bytes: Buffer): Buffer | null {
  const parts: Buffer[] = [];
  let total = 0;
  for (let at = 0; at + 5 <= bytes.length && total < maxMessageBytes; ) {
    const length = bytes.readUInt16BE(at + 3);
    // After the message, other records may follow; before it, this is not a handshake.
    if (bytes[at] !== handshakeRecord || bytes[at + 1] !== 3 || (bytes[at + 2] ?? 0) > 4 || length === 0 || length > 0x4800) break;
    const part = bytes.subarray(at + 5, at + 5 + length);
    parts.push(part);
    total += part.length;
    at += 5 + length;
  }
  const [first] = parts;
  if (first === undefined) return null;
  return parts.length === 1 ? first : Buffer.concat(parts, Math.min(total, maxMessageBytes));
}

function readServerName(extension: Cursor): string | null {
  const list = extension.part(extension.number(2) ?? 0);
  while (list.left > 0) {
    const type = list.number(1);
    const length = list.number(2);
    if (type === null || length === null) return null;
    const name = list.text(length);
    if (name === null) return null;
    if (type === 0) return hostName(name);
  }
  return null;
}

function readProtocols(extension: Cursor): string[] {
  const protocols: string[] = [];
  const list = extension.part(extension.number(2) ?? 0);
  while (list.left > 0 && protocols.length < maxProtocols) {
    const length = list.number(1);
    const name = length === null ? null : list.text(length);
    if (name === null) break;
    // Skip GREASE values (RFC 8701).
    if (/^[\w./-]{1,32}$/.test(name)) protocols.push(name);
  }
  return protocols;
}

/** Null if the bytes do not start with a ClientHello. Never throws. */
export function parseClientHello(bytes: Buffer): ClientHello | null {
  const message = readHandshake(bytes);
  if (message === null || message[0] !== clientHello || message.length < 6 || message[4] !== 3) return null;
  const length = message.readUIntBE(1, 3);
  const hello: ClientHello = { serverName: null, protocols: [], isComplete: message.length >= 4 + length };
  const body = new Cursor(message, 4, 4 + length);
  // Version and random.
  body.skip(34);
  body.skip(body.number(1) ?? 0);
  body.skip(body.number(2) ?? 0);
  body.skip(body.number(1) ?? 0);
  const extensions = body.part(body.number(2) ?? 0);
  for (let count = 0; count < maxExtensions && extensions.left >= 4; count++) {
    const type = extensions.number(2);
    const extension = extensions.part(extensions.number(2) ?? 0);
    if (type === serverNameExtension) hello.serverName ??= readServerName(extension);
    else if (type === alpnExtension && hello.protocols.length === 0) hello.protocols = readProtocols(extension);
  }
  return hello;
}
