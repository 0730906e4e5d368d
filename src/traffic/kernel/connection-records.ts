/** Reads records and tables of probes/tcp/connections.bpf.c in place. A test checks offsets against the BTF of the object. */

import type { AddressTexts } from "../../base/ip-address.ts";
import type { ConnectionEvent, PeerConnections } from "../core/messages.ts";

/** struct connection_record */
export const recordLayout = {
  sizeBytes: 88,
  started_ns: 0,
  at_ns: 8,
  bytes_sent: 16,
  bytes_received: 24,
  tgid: 32,
  netns: 36,
  rtt_us: 40,
  retransmits: 44,
  local: 48,
  remote: 64,
  local_port: 80,
  remote_port: 82,
  kind: 84,
  role: 85,
  reason: 86,
} as const;

/** struct peer_key */
export const keyLayout = { sizeBytes: 44, tgid: 0, netns: 4, local: 8, remote: 24, server_port: 40, role: 42 } as const;

/** struct peer_totals */
export const totalsLayout = {
  sizeBytes: 96,
  connections: 0,
  failed: 8,
  refused: 16,
  reset: 24,
  timed_out: 32,
  bytes_sent: 40,
  bytes_received: 48,
  rtt_sum_us: 56,
  rtt_count: 64,
  retransmits: 72,
  first_ns: 80,
  last_ns: 88,
} as const;

const kinds = [undefined, "opened", "closed", "failed"] as const;
const roles = [null, "client", "server"] as const;
const reasons = [null, "refused", "reset", "timed-out"] as const;

/** Undefined for a record of an unknown size or kind. */
export function readConnectionRecord(view: DataView, offset: number, length: number, texts: AddressTexts): ConnectionEvent | undefined {
  const kind = length >= recordLayout.sizeBytes ? kinds[view.getUint8(offset + recordLayout.kind)] : undefined;
  if (kind === undefined) return undefined;
  const u16 = (at: number): number => view.getUint16(offset + at, true);
  const u32 = (at: number): number => view.getUint32(offset + at, true);
  const u64 = (at: number): number => Number(view.getBigUint64(offset + at, true));
  const rttUs = u32(recordLayout.rtt_us);
  return {
    kind,
    role: roles[view.getUint8(offset + recordLayout.role)] ?? null,
    pid: u32(recordLayout.tgid),
    networkNamespace: u32(recordLayout.netns),
    localAddress: addressAt(view, offset + recordLayout.local, texts),
    localPort: u16(recordLayout.local_port),
    remoteAddress: addressAt(view, offset + recordLayout.remote, texts),
    remotePort: u16(recordLayout.remote_port),
    startedNs: view.getBigUint64(offset + recordLayout.started_ns, true),
    atNs: view.getBigUint64(offset + recordLayout.at_ns, true),
    bytesSent: u64(recordLayout.bytes_sent),
    bytesReceived: u64(recordLayout.bytes_received),
    rttUs: rttUs === 0 ? null : rttUs,
    retransmits: u32(recordLayout.retransmits),
    reason: reasons[view.getUint8(offset + recordLayout.reason)] ?? null,
  };
}

/** Undefined for an entry without a role. */
export function readPeerEntry(
  keys: Buffer,
  keyAt: number,
  values: Buffer,
  valueAt: number,
  texts: AddressTexts,
): PeerConnections | undefined {
  const role = roles[keys[keyAt + keyLayout.role] ?? 0] ?? null;
  if (role === null) return undefined;
  const count = (at: number): number => Number(values.readBigUInt64LE(valueAt + at));
  const view = new DataView(keys.buffer, keys.byteOffset, keys.length);
  const rttCount = count(totalsLayout.rtt_count);
  return {
    role,
    pid: keys.readUInt32LE(keyAt + keyLayout.tgid),
    networkNamespace: keys.readUInt32LE(keyAt + keyLayout.netns),
    localAddress: addressAt(view, keyAt + keyLayout.local, texts),
    remoteAddress: addressAt(view, keyAt + keyLayout.remote, texts),
    serverPort: keys.readUInt16LE(keyAt + keyLayout.server_port),
    connections: count(totalsLayout.connections),
    failed: count(totalsLayout.failed),
    refused: count(totalsLayout.refused),
    reset: count(totalsLayout.reset),
    timedOut: count(totalsLayout.timed_out),
    bytesSent: count(totalsLayout.bytes_sent),
    bytesReceived: count(totalsLayout.bytes_received),
    rttUs: rttCount === 0 ? null : Math.round(count(totalsLayout.rtt_sum_us) / rttCount),
    retransmits: count(totalsLayout.retransmits),
    firstNs: values.readBigUInt64LE(valueAt + totalsLayout.first_ns),
    lastNs: values.readBigUInt64LE(valueAt + totalsLayout.last_ns),
  };
}

/** Four little-endian words; IPv4-mapped addresses become IPv4. BPF objects are built for little-endian machines only. */
function addressAt(view: DataView, offset: number, texts: AddressTexts): string {
  const word = (at: number): number => view.getUint32(offset + at, true);
  return texts.ipv6(word(0), word(4), word(8), word(12));
}
