/** DNS (RFC 1035) over TCP, and the message parser for UDP. The queried name is the route, with random labels as `{id}`. */

import type { DecoderContext, ProtocolDecoder } from "../core/protocol-decoder.ts";
import { RequestsInFlight } from "../requests/requests-in-flight.ts";
import { idPlaceholder } from "../requests/route-template.ts";
import { FramedStream, type FrameTimes } from "./framed-stream.ts";
import { PairedByName } from "./paired-streams.ts";

export interface DnsMessage {
  id: number;
  isReply: boolean;
  /** `NOERROR`, `NXDOMAIN`, … */
  rcode: string;
  /** `A`, `AAAA`, …; `TYPE65` for types without a name here. */
  type: string;
  /** Lower case, templated; `.` for the root. */
  route: string;
}

const rcodes = ["NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET", "NOTAUTH", "NOTZONE"];
const types: ReadonlyMap<number, string> = new Map([
  [1, "A"],
  [2, "NS"],
  [5, "CNAME"],
  [6, "SOA"],
  [12, "PTR"],
  [13, "HINFO"],
  [15, "MX"],
  [16, "TXT"],
  [28, "AAAA"],
  [33, "SRV"],
  [35, "NAPTR"],
  [43, "DS"],
  [46, "RRSIG"],
  [48, "DNSKEY"],
  [52, "TLSA"],
  [64, "SVCB"],
  [65, "HTTPS"],
  [251, "IXFR"],
  [252, "AXFR"],
  [255, "ANY"],
  [257, "CAA"],
]);
const maxRouteLength = 120;
const headerBytes = 12;

/** NXDOMAIN is a valid result; a server that cannot or will not resolve the name is an error. */
export function isDnsError(rcode: string): boolean {
  return rcode !== "NOERROR" && rcode !== "NXDOMAIN";
}

/** Null if the bytes are neither a query nor a reply. `from` is the first byte of the message; of a truncated one, only the name may be missing. */
export function parseDnsMessage(bytes: Buffer, from: number, to: number): DnsMessage | null {
  if (!isDnsHeader(bytes, from, to)) return null;
  const labels: string[] = [];
  let at = from + headerBytes;
  for (;;) {
    const length = at < to ? (bytes[at] ?? 0) : -1;
    // Nothing precedes the question, so its name cannot be compressed.
    if (length < 0 || length > 63 || labels.length > 40 || at + 1 + length > to) return null;
    at++;
    if (length === 0) break;
    labels.push(bytes.toString("latin1", at, at + length).toLowerCase());
    at += length;
  }
  if (at + 4 > to) return null;
  const type = bytes.readUInt16BE(at);
  // Internet, Chaos, Hesiod, any; the top bit belongs to multicast DNS.
  const klass = bytes.readUInt16BE(at + 2) & 0x7fff;
  if (type === 0 || (klass !== 1 && klass !== 3 && klass !== 4 && klass !== 255)) return null;
  const code = (bytes[from + 3] ?? 0) & 15;
  return {
    id: bytes.readUInt16BE(from),
    isReply: ((bytes[from + 2] ?? 0) & 0x80) !== 0,
    rcode: rcodes[code] ?? `RCODE${code}`,
    type: types.get(type) ?? `TYPE${type}`,
    route: routeOf(labels),
  };
}

/** The same checks as in probes/protocol/classify.h. */
export function isDnsHeader(bytes: Buffer, from: number, to: number): boolean {
  if (to - from < headerBytes + 5) return false;
  const flags = bytes.readUInt16BE(from + 2);
  // A standard query or its reply, with the reserved bit clear and one question.
  if ((flags & 0x7840) !== 0 || bytes.readUInt16BE(from + 4) !== 1 || (bytes[from + headerBytes] ?? 64) > 63) return false;
  if ((flags & 0x8000) !== 0) return true;
  return (
    (flags & 15) === 0 && bytes.readUInt16BE(from + 6) === 0 && bytes.readUInt16BE(from + 8) <= 1 && bytes.readUInt16BE(from + 10) <= 2
  );
}

/** The last two labels, the owner's domain, are never treated as random. */
function routeOf(labels: string[]): string {
  if (labels.length === 0) return ".";
  if (labels.at(-1) === "arpa" && (labels.at(-2) === "in-addr" || labels.at(-2) === "ip6") && labels.length > 2) {
    return `${idPlaceholder}.${labels.at(-2)}.arpa`;
  }
  const kept: string[] = [];
  for (const [index, label] of labels.entries()) {
    const isId = index < labels.length - 2 && isRandomLabel(label);
    if (!isId) kept.push(/^[\x21-\x7e]+$/.test(label) ? label : label.replace(/[^\x21-\x7e]/g, "?"));
    else if (kept.at(-1) !== idPlaceholder) kept.push(idPlaceholder);
  }
  const route = kept.join(".");
  return route.length <= maxRouteLength ? route : `…${route.slice(1 - maxRouteLength)}`;
}

function isRandomLabel(label: string): boolean {
  if (label.length > 32) return true;
  const digits = label.replace(/[^0-9]/g, "").length;
  // UUIDs, hashes, addresses (ip-10-0-0-1), counters.
  if (/^[0-9a-f-]{8,}$/.test(label)) return digits > 0;
  return digits * 2 >= label.length || digits >= 5 || (label.length >= 16 && digits >= 3 && !label.includes("-"));
}

class DnsExchange {
  readonly decoder: PairedByName;
  readonly #context: DecoderContext;
  readonly #inFlight: RequestsInFlight;

  constructor(context: DecoderContext) {
    this.#context = context;
    this.#inFlight = new RequestsInFlight(context, 256);
    const onLost = () => context.sink.undecoded(1);
    const requests = new FramedStream(rules, (bytes, from, to, frame) => this.#onQuery(bytes, from, to, frame), onLost);
    const replies = new FramedStream(rules, (bytes, from, to, frame) => this.#onReply(bytes, from, to, frame), onLost);
    this.decoder = new PairedByName(this.#inFlight, requests, replies);
  }

  #onQuery(bytes: Buffer, from: number, to: number, frame: FrameTimes): void {
    const message = parseDnsMessage(bytes, from + 2, to);
    if (message === null) this.#context.sink.undecoded(1);
    else this.#inFlight.begin(frame, message.type, message.route, frame.lengthBytes, message.id);
  }

  #onReply(bytes: Buffer, from: number, to: number, frame: FrameTimes): void {
    const message = parseDnsMessage(bytes, from + 2, to);
    const request = message === null ? undefined : this.#inFlight.byId(message.id);
    if (message === null || request === undefined) {
      this.#context.sink.undecoded(1);
      return;
    }
    request.status = message.rcode;
    request.isError = isDnsError(message.rcode);
    this.#inFlight.responded(request, frame.lengthBytes, frame.atNs, frame.lastAtNs);
    this.#inFlight.end(request);
  }
}

const rules = {
  headerBytes: 2,
  frameLength(bytes: Buffer, at: number): number {
    const length = bytes.readUInt16BE(at);
    return length < headerBytes + 5 ? 0 : length + 2;
  },
};

/** DNS over TCP, where each message is preceded by its length. Messages over UDP go to `DnsDatagrams`. */
export function createDnsDecoder(context: DecoderContext): ProtocolDecoder {
  return new DnsExchange(context).decoder;
}
