/** MongoDB: OP_MSG, and the messages of older drivers and servers. Command and collection are the route; documents are skipped. */

import type { DecoderContext, ProtocolDecoder } from "../core/protocol-decoder.ts";
import { type OpenRequest, RequestsInFlight } from "../requests/requests-in-flight.ts";
import { unknownRoute } from "../requests/route-template.ts";
import { type BsonElement, walkBson } from "./bson-walk.ts";
import { FramedStream, type FrameTimes } from "./framed-stream.ts";
import { PairedByName } from "./paired-streams.ts";

const opReply = 1;
const opQuery = 2004;
const opCompressed = 2012;
const opMsg = 2013;
/** Operations of old drivers that name a collection; only the last one gets a reply. */
const legacyOperations: ReadonlyMap<number, string> = new Map([
  [2001, "update"],
  [2002, "insert"],
  [2006, "delete"],
  [2007, "killCursors"],
  [2005, "getMore"],
]);
const headerBytes = 16;
const maxMessageBytes = 48_000_000 + 16_384;
const moreToCome = 2;
const queryFailure = 2;

/** Whether the bytes are the four numbers of a message header. */
export function isMongoHeader(bytes: Buffer, at: number): boolean {
  const length = bytes.readInt32LE(at);
  const operation = bytes.readInt32LE(at + 12);
  const isKnown = operation === opReply || operation === opMsg || operation === opQuery || operation === opCompressed;
  return length > headerBytes && length <= maxMessageBytes && (isKnown || legacyOperations.has(operation));
}

const rules = {
  headerBytes,
  maxHeadBytes: 1024,
  frameLength: (bytes: Buffer, at: number): number => (isMongoHeader(bytes, at) ? bytes.readInt32LE(at) : 0),
};

class MongoExchange {
  readonly decoder: PairedByName;
  readonly #inFlight: RequestsInFlight;

  constructor(context: DecoderContext) {
    this.#inFlight = new RequestsInFlight(context, 256);
    const onLost = () => context.sink.undecoded(1);
    const requests = new FramedStream(rules, (bytes, from, to, frame) => this.#onRequest(bytes, from, to, frame), onLost);
    const replies = new FramedStream(rules, (bytes, from, to, frame) => this.#onReply(bytes, from, to, frame), onLost);
    this.decoder = new PairedByName(this.#inFlight, requests, replies);
  }

  #onRequest(bytes: Buffer, from: number, to: number, frame: FrameTimes): void {
    const operation = bytes.readInt32LE(from + 12);
    const id = bytes.readInt32LE(from + 4);
    const { method, route } = requestNames(bytes, from, to, operation);
    const request = this.#inFlight.begin(frame, method, route, frame.lengthBytes, id);
    const isFlagged = operation === opMsg && to - from >= 20 && (bytes.readUInt32LE(from + 16) & moreToCome) !== 0;
    // No reply: written with `w: 0`.
    if (isFlagged || (legacyOperations.has(operation) && operation !== 2005)) this.#inFlight.end(request);
  }

  #onReply(bytes: Buffer, from: number, to: number, frame: FrameTimes): void {
    const request = this.#inFlight.byId(bytes.readInt32LE(from + 8));
    // A stream of replies to one request (exhaust cursors, monitoring): the first one ended it.
    if (request === undefined) return;
    readStatus(request, bytes, from, to);
    this.#inFlight.responded(request, frame.lengthBytes, frame.atNs, frame.lastAtNs);
    this.#inFlight.end(request);
  }
}

function requestNames(bytes: Buffer, from: number, to: number, operation: number): { method: string; route: string } {
  const legacy = legacyOperations.get(operation);
  if (legacy !== undefined) {
    const name = operation === 2007 ? "" : collectionOf(cString(bytes, from + 20, to));
    return { method: legacy, route: name === "" ? legacy : `${legacy} ${name}` };
  }
  if (operation === opMsg) {
    const body = bodyOf(bytes, from + 20, to);
    return body < 0 ? { method: "", route: unknownRoute } : commandNames(bytes, body, to);
  }
  if (operation === opQuery) {
    const full = cString(bytes, from + 20, to);
    // The name is followed by the numbers to skip and to return.
    if (full.endsWith(".$cmd")) return commandNames(bytes, from + 20 + full.length + 1 + 8, to);
    return { method: "find", route: `find ${collectionOf(full)}` };
  }
  return { method: "", route: unknownRoute };
}

/** Offset of the body of an OP_MSG, which may follow a document sequence; -1 if truncated. */
function bodyOf(bytes: Buffer, from: number, to: number): number {
  let at = from;
  while (at + 5 <= to) {
    if (bytes[at] === 0) return at + 1;
    if (bytes[at] !== 1) return -1;
    const length = bytes.readInt32LE(at + 1);
    if (length < 5) return -1;
    at += 1 + length;
  }
  return -1;
}

/** The command is the first element of its document; its value is usually the collection. */
function commandNames(bytes: Buffer, from: number, to: number): { method: string; route: string } {
  let method = "";
  let collection = "";
  walkBson(bytes, from, to, (element) => {
    if (method === "") {
      method = element.name;
      if (element.type === 2) collection = element.text();
      return method === "getMore";
    }
    if (element.name !== "collection") return true;
    collection = element.text();
    return false;
  });
  if (!/^[A-Za-z_]{1,40}$/.test(method)) return { method: "", route: unknownRoute };
  const name = isNamedAfterCollection(method) ? collectionOf(`.${collection}`) : "";
  return { method, route: name === "" ? method : `${method} ${name}` };
}

/** Commands whose value is a string but not a collection: roles, users, databases, log entries. */
function isNamedAfterCollection(method: string): boolean {
  return !/^(?:sasl|authenticate|getnonce|copydb|createUser|updateUser|dropUser|createRole|updateRole|dropRole|grant|revoke|getLog|usersInfo|rolesInfo|logMessage|whatsmyuri)/i.test(
    method,
  );
}

/** `users` of `shop.users`. Generated names contain numbers. */
function collectionOf(full: string): string {
  const name = full.slice(full.indexOf(".") + 1);
  if (name.length > 80 || !/^[\x21-\x7e\p{L}\p{M}\p{N}]+$/u.test(name)) return "";
  return name.replace(/[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{24,}|\d{6,}/g, "{id}");
}

function cString(bytes: Buffer, from: number, to: number): string {
  const end = bytes.subarray(0, to).indexOf(0, from);
  return end < 0 || end - from > 200 ? "" : bytes.toString("utf8", from, end);
}

function readStatus(request: OpenRequest, bytes: Buffer, from: number, to: number): void {
  const operation = bytes.readInt32LE(from + 12);
  let body = -1;
  if (operation === opMsg) body = bodyOf(bytes, from + 20, to);
  else if (operation === opReply) body = from + 36;
  if (body < 0) return;
  let isOk = !(operation === opReply && to - from >= 20 && (bytes.readUInt32LE(from + 16) & queryFailure) !== 0);
  let code = "";
  walkBson(bytes, body, to, (element) => {
    if (element.name === "ok") isOk = isOk && element.number() !== 0;
    else if (element.name === "code") code = String(element.number());
    else if (element.name === "writeErrors" && element.type === 4) {
      code = firstWriteError(element, bytes, to);
      isOk = false;
    }
    return true;
  });
  if (isOk) return;
  request.isError = true;
  request.status = code === "" ? "error" : code;
}

function firstWriteError(errors: BsonElement, bytes: Buffer, to: number): string {
  let code = "";
  walkBson(bytes, errors.from, to, (first) => {
    walkBson(bytes, first.from, to, (field) => {
      if (field.name === "code") code = String(field.number());
      return code === "";
    });
    return false;
  });
  return code;
}

export function createMongoDecoder(context: DecoderContext): ProtocolDecoder {
  return new MongoExchange(context).decoder;
}
