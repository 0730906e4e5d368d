/**
 * MySQL and MariaDB. A request is a command of the client (sequence number 0). Its reply starts with packet number 1, and its end cannot be found in
 * truncated payloads, so it ends with the next command, the close, or when the connection goes idle.
 */

import type { SqlTemplate } from "../../redact/index.ts";
import type { Chunk, DecoderContext, ProtocolDecoder } from "../core/protocol-decoder.ts";
import { type OpenRequest, RequestsInFlight } from "../requests/requests-in-flight.ts";
import { unknownRoute } from "../requests/route-template.ts";
import { FramedStream, type FrameTimes } from "./framed-stream.ts";
import { createSqlTemplater, type SqlTemplater } from "./sql-templater.ts";

const comQuit = 0x01;
const comQuery = 0x03;
const comPrepare = 0x16;
const comExecute = 0x17;
const comSendLongData = 0x18;
const comClose = 0x19;
const comFetch = 0x1c;
const comBulkExecute = 0xfa;
/** Commands whose route is their name. */
const commandNames: ReadonlyMap<number, string> = new Map([
  [0x02, "INIT DB"],
  [0x04, "FIELD LIST"],
  [0x05, "CREATE DB"],
  [0x06, "DROP DB"],
  [0x07, "REFRESH"],
  [0x08, "SHUTDOWN"],
  [0x09, "STATISTICS"],
  [0x0a, "PROCESS INFO"],
  [0x0c, "KILL"],
  [0x0d, "DEBUG"],
  [0x0e, "PING"],
  [0x11, "CHANGE USER"],
  [0x12, "BINLOG DUMP"],
  [0x15, "REGISTER REPLICA"],
  [0x1a, "RESET STATEMENT"],
  [0x1b, "SET OPTION"],
  [0x1e, "BINLOG DUMP GTID"],
  [0x1f, "RESET CONNECTION"],
]);
const oneWayCommands = new Set([comQuit, comSendLongData, comClose]);
const capabilityCompress = 0x20;
const capabilitySsl = 0x800;
const capabilityZstd = 0x4000000;
const capabilityProtocol41 = 0x200;
/** MariaDB: the most recently prepared statement. */
const lastStatement = 0xffffffff;
/** MariaDB: an error with this number is a progress report. */
const progressCode = 0xffff;
const maxStatements = 1024;
const headerBytes = 4;
/** Values of `OpenRequest.state`. */
const waiting = 0;
const replyStarted = 1;
const unknownNames: SqlTemplate = { verb: "", template: unknownRoute };

export function isMysqlCommand(command: number): boolean {
  return (
    oneWayCommands.has(command) ||
    command === comQuery ||
    command === comPrepare ||
    command === comExecute ||
    command === comFetch ||
    command === comBulkExecute ||
    commandNames.has(command)
  );
}

const rules = {
  headerBytes,
  maxHeadBytes: 1024,
  frameLength: (bytes: Buffer, at: number): number => headerBytes + bytes.readUIntLE(at, 3),
};

/** Shared by all connections, which tend to send the same statements. */
let templater: SqlTemplater | undefined;

class MysqlDecoder implements ProtocolDecoder {
  readonly #context: DecoderContext;
  readonly #inFlight: RequestsInFlight;
  readonly #requests: FramedStream;
  readonly #replies: FramedStream;
  readonly #statements = new Map<number, SqlTemplate>();
  #lastPrepared: SqlTemplate = unknownNames;
  /** After the server's greeting, before the client's login. */
  #isGreeting = false;
  /** The server has requested a file (LOAD DATA LOCAL) or reported progress (MariaDB): the reply is yet to come, and client packets are not requests. */
  #isUnderWay = false;
  /** Nothing can be decoded from here on. Compressed traffic is counted; encrypted traffic arrives as its own connection if TLS probes see it. */
  #opaque: "no" | "compressed" | "encrypted" = "no";

  constructor(context: DecoderContext) {
    this.#context = context;
    this.#inFlight = new RequestsInFlight(context, 256);
    this.#requests = new FramedStream(
      rules,
      (bytes, from, to, frame) => this.#onRequestPacket(bytes, from, to, frame),
      () => {
        if (!this.#isUnderWay) context.sink.undecoded(1);
      },
    );
    this.#replies = new FramedStream(
      rules,
      (bytes, from, to) => this.#onReplyPacket(bytes, from, to),
      () => {},
    );
  }

  onRequestBytes(chunk: Chunk): void {
    if (this.#opaque !== "no") {
      if (this.#opaque === "compressed") this.#context.sink.undecoded(1);
      return;
    }
    if (this.#requests.isLost && chunk.bytes[3] !== 0) return;
    // A login or a command is usually one write: an abandoned half packet must not swallow the next one.
    if (this.#requests.isInFrame && isOnePacket(chunk) && (this.#isGreeting || isCommand(chunk.bytes))) {
      this.#context.sink.undecoded(1);
      this.#requests.reset();
    }
    this.#requests.push(chunk);
  }

  onReplyBytes(chunk: Chunk): void {
    if (this.#opaque !== "no") return;
    const request = this.#inFlight.oldest;
    if (request === undefined) {
      this.#replies.reset();
      if (isGreeting(chunk.bytes)) this.#isGreeting = true;
      return;
    }
    const isPiped = this.#inFlight.size > 1;
    if (!isPiped) this.#inFlight.responded(request, chunk.fullLength, chunk.atNs);
    else if (request.state === replyStarted || this.#replies.isLost) this.#inFlight.responded(request, 0, chunk.atNs);
    if (request.state === waiting || isPiped || this.#isUnderWay) this.#pushReply(chunk, isPiped);
  }

  /** Requests whose reply has started have their status. */
  onMissed(what: "requests" | "replies"): void {
    if (what === "requests") this.#requests.lose();
    this.#endReplied();
    this.#inFlight.giveUp();
    this.#replies.reset();
  }

  onIdle(): void {
    this.#endReplied();
  }

  onClose(atNs: number | null): void {
    this.#inFlight.close(atNs);
  }

  #pushReply(chunk: Chunk, isPiped: boolean): void {
    this.#replyAtNs = chunk.atNs;
    this.#isPiped = isPiped;
    this.#replies.push(chunk);
  }
  #replyAtNs = 0;
  #isPiped = false;

  #onRequestPacket(bytes: Buffer, from: number, to: number, frame: FrameTimes): void {
    if (this.#isGreeting) {
      this.#isGreeting = false;
      this.#onLogin(bytes, from, to);
      return;
    }
    // Other numbers: replies to the server, data of LOAD DATA LOCAL, the rest of a long command.
    if (bytes[from + 3] !== 0 || to - from <= headerBytes) return;
    const command = bytes[from + headerBytes] ?? 0;
    if (!isMysqlCommand(command)) {
      this.#context.sink.undecoded(1);
      return;
    }
    this.#isUnderWay = false;
    this.#endReplied();
    if (this.#inFlight.size === 0) this.#replies.reset();
    if (oneWayCommands.has(command)) {
      if (command === comClose && to - from >= 9) this.#statements.delete(bytes.readUInt32LE(from + 5));
      return;
    }
    const isCut = to - from < frame.lengthBytes;
    const names = this.#namesOf(command, bytes, from, to, isCut);
    const request = this.#inFlight.begin(frame, names.verb, names.template, frame.lengthBytes);
    request.id = command;
    if (command === comPrepare) {
      this.#lastPrepared = names;
      request.method = "PREPARE";
    }
  }

  /** Requests whose reply started before this command are complete. */
  #endReplied(): void {
    for (let oldest = this.#inFlight.oldest; oldest !== undefined && oldest.firstByteNs >= 0; oldest = this.#inFlight.oldest) {
      this.#inFlight.end(oldest);
    }
  }

  #onLogin(bytes: Buffer, from: number, to: number): void {
    if (to - from < 8) return;
    const low = bytes.readUInt16LE(from + 4);
    const capabilities = low & capabilityProtocol41 ? bytes.readUInt32LE(from + 4) : low;
    // The request for TLS is the login packet without names.
    if (capabilities & capabilitySsl && bytes.readUIntLE(from, 3) <= 32) this.#opaque = "encrypted";
    else if (capabilities & (capabilityCompress | capabilityZstd)) this.#opaque = "compressed";
  }

  #namesOf(command: number, bytes: Buffer, from: number, to: number, isCut: boolean): SqlTemplate {
    if (command === comQuery || command === comPrepare) {
      let textFrom = from + headerBytes + 1;
      // Query attributes: zero parameters, one set.
      if (command === comQuery && bytes[textFrom] === 0 && bytes[textFrom + 1] === 1) textFrom += 2;
      const first = bytes[textFrom] ?? 0;
      if (first < 9) return unknownNames;
      templater ??= createSqlTemplater({ dialect: "mysql" });
      return templater(bytes, textFrom, to, isCut);
    }
    if (command === comExecute || command === comFetch || command === comBulkExecute) {
      if (to - from < 9) return unknownNames;
      const id = bytes.readUInt32LE(from + 5);
      return id === lastStatement ? this.#lastPrepared : (this.#statements.get(id) ?? unknownNames);
    }
    const name = commandNames.get(command) ?? "";
    return { verb: name, template: name };
  }

  #onReplyPacket(bytes: Buffer, from: number, to: number): void {
    let request = this.#inFlight.oldest;
    if (request === undefined) return;
    const isFirst = bytes[from + 3] === 1;
    if (request.state === replyStarted) {
      // Its number continues those of the file, or of progress.
      if (this.#isUnderWay) this.#readFirst(request, bytes, from + headerBytes, to);
      if (!isFirst || !this.#isPiped) return;
      this.#inFlight.end(request);
      request = this.#inFlight.oldest;
      if (request === undefined) return;
    }
    if (!isFirst) return;
    request.state = replyStarted;
    if (this.#isPiped) this.#inFlight.responded(request, to - from, this.#replyAtNs);
    this.#readFirst(request, bytes, from + headerBytes, to);
  }

  #readFirst(request: OpenRequest, bytes: Buffer, from: number, to: number): void {
    const first = bytes[from];
    const code = first === 0xff && to - from >= 3 ? bytes.readUInt16LE(from + 1) : 0;
    this.#isUnderWay = code === progressCode || (first === 0xfb && request.id === comQuery);
    if (this.#isUnderWay) return;
    if (code > 0) {
      request.isError = true;
      request.status = String(code);
    } else if (first === 0 && request.id === comPrepare && to - from >= 5) {
      if (this.#statements.size >= maxStatements) {
        for (const oldest of this.#statements.keys()) {
          this.#statements.delete(oldest);
          break;
        }
      }
      this.#statements.set(bytes.readUInt32LE(from + 1), this.#lastPrepared);
    }
  }
}

function isOnePacket({ bytes, fullLength }: Chunk): boolean {
  return bytes.length > headerBytes && rules.frameLength(bytes, 0) === fullLength;
}

function isCommand(bytes: Buffer): boolean {
  return bytes[3] === 0 && isMysqlCommand(bytes[headerBytes] ?? 0);
}

/** The server's first packet: protocol 10 and its version. */
export function isGreeting(bytes: Buffer): boolean {
  if (bytes.length < 8 || bytes[3] !== 0 || bytes[4] !== 10) return false;
  const digit = bytes[5] ?? 0;
  const length = bytes.readUIntLE(0, 3);
  return digit >= 0x30 && digit <= 0x39 && length >= 40 && length < 512;
}

export function createMysqlDecoder(context: DecoderContext): ProtocolDecoder {
  return new MysqlDecoder(context);
}
