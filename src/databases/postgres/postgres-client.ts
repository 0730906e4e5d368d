/**
 * A Postgres session over protocol 3.0, for a few bounded queries. One statement per message: the server rejects a second one in the same
 * text.
 */

import { createHash } from "node:crypto";
import { CoralError } from "../../base/errors.ts";
import type { DatabaseCredentials } from "../../model/database-facts.ts";
import { ByteStream, type DatabaseAddress } from "../wire/byte-stream.ts";
import { startScram } from "./scram.ts";

export type PostgresRow = Readonly<Record<string, string | null>>;

interface Message {
  type: string;
  body: Buffer;
}

/** 3.0 as two 16-bit numbers. */
const protocolVersion = 0x00030000;
/** The version number that stands for an SSLRequest: 1234.5679. */
const tlsRequest = 80_877_103;
const maxMessageBytes = 4 * 1024 * 1024;
const defaultMaxRows = 500;

export class PostgresClient implements Disposable {
  readonly #stream: ByteStream;

  private constructor(stream: ByteStream) {
    this.#stream = stream;
  }

  static async open(address: DatabaseAddress, login: DatabaseCredentials, signal: AbortSignal): Promise<PostgresClient> {
    const stream = await ByteStream.open(address, { signal });
    const client = new PostgresClient(stream);
    try {
      if (address.socketFile === undefined) await client.#offerTls();
      await client.#logIn(login);
      return client;
    } catch (error) {
      client[Symbol.dispose]();
      throw error;
    }
  }

  /** Rows by column name, at most `maxRows`; the server does not send the rest. */
  async query(sql: string, maxRows = defaultMaxRows): Promise<PostgresRow[]> {
    const limit = Buffer.alloc(5);
    limit.writeInt32BE(maxRows, 1);
    // Parse, Bind, Describe, Execute and Sync in one write. Execute carries the row limit.
    this.#stream.write(
      Buffer.concat([
        message("P", Buffer.concat([text(""), text(sql), int16(0)])),
        message("B", Buffer.concat([text(""), text(""), int16(0), int16(0), int16(0)])),
        message("D", Buffer.concat([Buffer.from("P"), text("")])),
        message("E", limit),
        message("S", Buffer.alloc(0)),
      ]),
    );
    return await this.#readRows();
  }

  [Symbol.dispose](): void {
    this.#stream.write(message("X", Buffer.alloc(0)));
    this.#stream[Symbol.dispose]();
  }

  async #readRows(): Promise<PostgresRow[]> {
    const rows: PostgresRow[] = [];
    let columns: string[] = [];
    let problem: CoralError | undefined;
    for (;;) {
      const { type, body } = await this.#next();
      // RowDescription, DataRow, ErrorResponse, ReadyForQuery. After an error the server skips to Sync, so reading must go on until then.
      if (type === "T") columns = columnsIn(body);
      else if (type === "D") rows.push(rowIn(body, columns));
      else if (type === "E") problem ??= serverError(body);
      else if (type === "Z") break;
    }
    if (problem) throw problem;
    return rows;
  }

  async #offerTls(): Promise<void> {
    // The server replies with one byte: `S` accepts TLS, `N` continues in cleartext.
    const request = Buffer.alloc(8);
    request.writeInt32BE(8, 0);
    request.writeInt32BE(tlsRequest, 4);
    this.#stream.write(request);
    const answer = (await this.#stream.read(1)).toString("latin1");
    if (answer === "S") await this.#stream.startTls();
    else if (answer !== "N") throw notPostgres();
  }

  async #logIn({ user, password, database }: DatabaseCredentials): Promise<void> {
    const fields = { user, database: database === "" ? user : database, application_name: "coral", client_encoding: "UTF8" };
    const pairs = Object.entries(fields).flatMap(([name, value]) => [text(name), text(value)]);
    const version = Buffer.alloc(4);
    version.writeInt32BE(protocolVersion);
    this.#stream.write(withLength(Buffer.concat([version, ...pairs, Buffer.alloc(1)])));
    for (;;) {
      const { type, body } = await this.#next();
      if (type === "E") throw loginError(serverError(body), user);
      if (type === "Z") return;
      if (type === "R") await this.#authenticate(body, user, password);
    }
  }

  async #authenticate(body: Buffer, user: string, password: string): Promise<void> {
    const kind = body.length < 4 ? -1 : body.readInt32BE(0);
    // AuthenticationOk, then CleartextPassword, MD5Password (with a 4-byte salt) and SASL.
    if (kind === 0) return;
    if (kind === 3) {
      if (!this.#stream.isPrivate) throw refused("the server requests a cleartext password over an unencrypted connection");
      return this.#stream.write(message("p", text(password)));
    }
    if (kind === 5) {
      const inner = md5(Buffer.from(password + user));
      return this.#stream.write(message("p", text(`md5${md5(Buffer.concat([Buffer.from(inner), body.subarray(4, 8)]))}`)));
    }
    if (kind === 10) return await this.#scram(body, password);
    throw refused(`the server requires unsupported authentication type ${kind}; give the role a password with SCRAM-SHA-256 or md5`);
  }

  async #scram(body: Buffer, password: string): Promise<void> {
    if (!body.toString("latin1", 4).split("\0").includes("SCRAM-SHA-256")) throw refused("the server does not offer SCRAM-SHA-256");
    const exchange = startScram(password);
    const first = Buffer.from(exchange.first);
    this.#stream.write(message("p", Buffer.concat([text("SCRAM-SHA-256"), int32(first.length), first])));
    const proof = await exchange.proof(await this.#saslText(11));
    this.#stream.write(message("p", Buffer.from(proof)));
    // An impostor on the port cannot compute this: it would need the password or its verifier.
    if (!exchange.isServerProven(await this.#saslText(12))) throw refused("the server could not prove that it knows the password");
  }

  async #saslText(kind: number): Promise<string> {
    const { type, body } = await this.#next();
    if (type === "E") throw loginError(serverError(body));
    if (type !== "R" || body.length < 4 || body.readInt32BE(0) !== kind) throw notPostgres();
    return body.toString("utf8", 4);
  }

  async #next(): Promise<Message> {
    const head = await this.#stream.read(5);
    // The length includes itself but not the type byte.
    const length = head.readInt32BE(1) - 4;
    if (length < 0 || length > maxMessageBytes) throw notPostgres();
    return { type: String.fromCharCode(head[0] ?? 0), body: await this.#stream.read(length) };
  }
}

function message(type: string, body: Buffer): Buffer {
  return Buffer.concat([Buffer.from(type), withLength(body)]);
}

function withLength(body: Buffer): Buffer {
  return Buffer.concat([int32(body.length + 4), body]);
}

const text = (value: string): Buffer => Buffer.from(`${value.replaceAll("\0", "")}\0`);

function int16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeInt16BE(value);
  return bytes;
}

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}

const md5 = (bytes: Buffer): string => createHash("md5").update(bytes).digest("hex");

function columnsIn(body: Buffer): string[] {
  const columns: string[] = [];
  let at = 2;
  for (let left = body.length < 2 ? 0 : body.readUInt16BE(0); left > 0; left--) {
    const end = body.indexOf(0, at);
    if (end < 0) throw notPostgres();
    columns.push(body.toString("utf8", at, end));
    // Skips table, column, type, size, modifier and format.
    at = end + 1 + 18;
  }
  return columns;
}

function rowIn(body: Buffer, columns: readonly string[]): PostgresRow {
  const row: Record<string, string | null> = {};
  let at = 2;
  for (const column of columns) {
    if (at + 4 > body.length) throw notPostgres();
    const length = body.readInt32BE(at);
    at += 4;
    if (length > body.length - at) throw notPostgres();
    row[column] = length < 0 ? null : body.toString("utf8", at, at + length);
    at += Math.max(0, length);
  }
  return row;
}

/** `details.sqlState` is the server's SQLSTATE; the message is the server's text. */
function serverError(body: Buffer): CoralError {
  const fields = new Map(
    body
      .toString("utf8")
      .split("\0")
      .map((part) => [part.slice(0, 1), part.slice(1)]),
  );
  const sqlState = fields.get("C") ?? "";
  // 57014: query_canceled, as by statement_timeout.
  const code = sqlState === "57014" ? "timeout" : "unavailable";
  return new CoralError({ code, message: `${fields.get("M") ?? "error without a message"} (${sqlState})`, details: { sqlState } });
}

function loginError({ message: reason, details }: CoralError, user?: string): CoralError {
  // Class 28: invalid authorization specification.
  const isWrong = String(details["sqlState"]).startsWith("28");
  const fix = isWrong ? "; check user and password in the credentials file, and pg_hba.conf" : "";
  return new CoralError({
    code: isWrong ? "unauthenticated" : "unavailable",
    message: `cannot log in to the database${user === undefined ? "" : ` as "${user}"`}: ${reason}${fix}`,
    details,
  });
}

const refused = (why: string): CoralError => new CoralError({ code: "unauthenticated", message: `cannot log in to the database: ${why}` });

const notPostgres = (): CoralError =>
  new CoralError({ code: "unavailable", message: "cannot read from the database: it does not speak the Postgres protocol" });
