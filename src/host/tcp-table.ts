/** `/proc/<pid>/net/tcp` and `tcp6`: the sockets of one network namespace. */

import { endianness } from "node:os";
import type { HostRoot, ReadTally } from "./host-root.ts";
import { fieldsOf } from "./kernel-text.ts";

export interface ListenSocket {
  /** As people write it: `127.0.0.1`, `::`, `::ffff:10.0.0.1`. */
  address: string;
  port: number;
  /** Owner at the time the socket was made. */
  userId: number;
  inode: number;
}

const listenState = "0A";

/** The kernel prints addresses as 32-bit words in the machine's byte order. Null when the text is neither 8 nor 32 hex digits. */
export function decodeAddress(hex: string, order: "LE" | "BE" = endianness()): string | null {
  if (!/^(?:[0-9A-Fa-f]{8}|[0-9A-Fa-f]{32})$/.test(hex)) return null;
  const bytes = Buffer.from(hex, "hex");
  if (order === "LE") bytes.swap32();
  return bytes.length === 4 ? [...bytes].join(".") : formatIpv6(bytes);
}

/** RFC 5952: lower case, no leading zeros, the longest run of two or more zero groups as `::`, mapped IPv4 dotted. */
function formatIpv6(bytes: Buffer): string {
  const groups = Array.from({ length: 8 }, (_, index) => bytes.readUInt16BE(index * 2));
  if (groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff) return `::ffff:${[...bytes.subarray(12)].join(".")}`;
  let best = { start: -1, length: 1 };
  for (let start = 0; start < 8; start++) {
    let length = 0;
    while (groups[start + length] === 0) length++;
    if (length > best.length) best = { start, length };
  }
  const text = (part: number[]): string => part.map((group) => group.toString(16)).join(":");
  if (best.start < 0) return text(groups);
  return `${text(groups.slice(0, best.start))}::${text(groups.slice(best.start + best.length))}`;
}

/** A line of the table; null for the heading, damaged lines and sockets that do not listen. */
export function parseListenLine(line: string): ListenSocket | null {
  const fields = fieldsOf(line);
  const [address, port] = (fields[1] ?? "").split(":");
  if (fields[3] !== listenState || !address || !port || !/^[0-9A-Fa-f]{4}$/.test(port)) return null;
  const text = decodeAddress(address);
  const userId = Number(fields[7]);
  const inode = Number(fields[9]);
  if (text === null || !Number.isSafeInteger(userId) || !Number.isSafeInteger(inode) || userId < 0 || inode < 0) return null;
  return { address: text, port: Number.parseInt(port, 16), userId, inode };
}

/** A half-open connection; kernels before 4.4 print those among the listeners. */
const synReceivedState = "03";

function isBeyondListeners(line: string): boolean {
  const state = /^\s*\d+: [0-9A-F]+:[0-9A-F]{4} [0-9A-F]+:[0-9A-F]{4} ([0-9A-F]{2}) /.exec(line)?.[1];
  return state !== undefined && state !== listenState && state !== synReceivedState;
}

/**
 * Listening sockets of one table. The kernel prints all of them before the first connection, so reading stops there: a server with
 * 100,000 connections costs no more than an idle one. False when the file cannot be read.
 */
export function readListenSockets(root: HostRoot, path: string, limit: number, tally: ReadTally, into: ListenSocket[]): boolean {
  let rest = "";
  let isDone = false;
  const take = (line: string): void => {
    const socket = parseListenLine(line);
    if (socket && into.length < limit) into.push(socket);
    else if (socket) tally.truncated++;
    else if (isBeyondListeners(line)) isDone = true;
  };
  const wasRead = root.readWhile(
    path,
    (piece) => {
      const lines = (rest + piece).split("\n");
      rest = lines.pop() ?? "";
      // A line is 150 characters; without line ends this is not the file we know.
      if (rest.length > 4096) rest = "";
      for (const line of lines) {
        if (isDone) break;
        take(line);
      }
      return !isDone;
    },
    tally,
  );
  if (!isDone) take(rest);
  return wasRead;
}
