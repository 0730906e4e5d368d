/**
 * A MySQL or MariaDB session over protocol 4.1, for a few bounded queries. Does not set CLIENT_MULTI_STATEMENTS, so the server rejects a
 * second statement in a text.
 */

import { CoralError } from "../../base/errors.ts";
import type { DatabaseCredentials } from "../../model/database-facts.ts";
import { ByteStream, type DatabaseAddress } from "../wire/byte-stream.ts";
import { encryptedPassword, passwordProof } from "./mysql-passwords.ts";
import { PacketReader } from "./packet-reader.ts";

export type MysqlRow = Readonly<Record<string, string | null>>;

/** CLIENT_* flags of protocol 4.1. `secure` is CLIENT_SECURE_CONNECTION, `attributes` CLIENT_CONNECT_ATTRS. */
const capability = {
  connectWithDb: 0x8,
  protocol41: 0x200,
  tls: 0x800,
  transactions: 0x2000,
  secure: 0x8000,
  plugins: 0x80000,
  attributes: 0x100000,
};
/** utf8mb4_general_ci, known to all servers since MySQL 5.5. */
const utf8mb4 = 45;
/** Protocol packets may have 16 MiB; the queries here never need that. */
const maxPacketBytes = 4 * 1024 * 1024;
const maxRows = 1_000;

interface Greeting {
  version: string;
  salt: Buffer;
  plugin: string;
  capabilities: number;
}

export class MysqlClient implements Disposable {
  readonly #stream: ByteStream;
  #sequence = 0;

  private constructor(stream: ByteStream) {
    this.#stream = stream;
  }

  static async open(address: DatabaseAddress, login: DatabaseCredentials, signal: AbortSignal): Promise<MysqlClient> {
    const stream = await ByteStream.open(address, { signal });
    const client = new MysqlClient(stream);
    try {
      await client.#logIn(login);
      return client;
    } catch (error) {
      client[Symbol.dispose]();
      throw error;
    }
  }

  /** Rows by column name in lower case. More than a thousand are an error: queries must use LIMIT. */
  async query(sql: string): Promise<MysqlRow[]> {
    this.#sequence = 0;
    // COM_QUERY.
    this.#send(Buffer.concat([Buffer.from([3]), Buffer.from(sql)]));
    const first = await this.#packet();
    if (first[0] === 0xff) throw serverError(first);
    if (first[0] === 0) return [];
    const columns: string[] = [];
    for (let left = new PacketReader(first).length(); left > 0; left--) columns.push(columnIn(await this.#packet()));
    await this.#packet();
    const rows: MysqlRow[] = [];
    for (;;) {
      const packet = await this.#packet();
      if (packet[0] === 0xff) throw serverError(packet);
      // An EOF packet. Longer packets that start with 0xfe are rows with a value of more than 16 MiB.
      if (packet[0] === 0xfe && packet.length < 9) return rows;
      if (rows.length >= maxRows) throw new CoralError({ code: "exhausted", message: "cannot read from the database: too many rows" });
      const reader = new PacketReader(packet);
      rows.push(Object.fromEntries(columns.map((column) => [column, reader.lengthText()])));
    }
  }

  [Symbol.dispose](): void {
    this.#sequence = 0;
    // COM_QUIT.
    this.#send(Buffer.from([1]));
    this.#stream[Symbol.dispose]();
  }

  async #logIn({ user, password, database }: DatabaseCredentials): Promise<void> {
    const greeting = greetingIn(await this.#packet());
    const isTls = (greeting.capabilities & capability.tls) !== 0;
    const { protocol41, tls, transactions, secure, plugins, attributes, connectWithDb } = capability;
    const wanted = protocol41 | transactions | secure | plugins | (isTls ? tls : 0) | (database === "" ? 0 : connectWithDb);
    const flags = wanted | (greeting.capabilities & attributes);
    const head = Buffer.alloc(32);
    head.writeUInt32LE(flags, 0);
    // The largest packet that the client accepts.
    head.writeUInt32LE(1 << 24, 4);
    head[8] = utf8mb4;
    // A truncated login packet requests TLS; the full one follows encrypted.
    if (isTls) {
      this.#send(head);
      await this.#stream.startTls();
    }
    const proof = passwordProof(greeting.plugin, password, greeting.salt);
    // Length-prefixed connection attribute: processlist tools show program_name.
    const named = Buffer.from("\x0cprogram_name\x05coral", "latin1");
    this.#send(
      Buffer.concat([
        head,
        Buffer.from(`${withoutNul(user)}\0`),
        Buffer.from([proof.length]),
        proof,
        Buffer.from(database === "" ? "" : `${withoutNul(database)}\0`),
        Buffer.from(`${greeting.plugin}\0`),
        (flags & attributes) === 0 ? Buffer.alloc(0) : Buffer.concat([Buffer.from([named.length]), named]),
      ]),
    );
    await this.#finishLogin(user, password, greeting);
  }

  async #finishLogin(user: string, password: string, greeting: Greeting): Promise<void> {
    let { salt } = greeting;
    // A server needs only a few steps; one that continues forever hits the deadline.
    for (;;) {
      const packet = await this.#packet();
      if (packet[0] === 0) return;
      if (packet[0] === 0xff) throw loginError(serverError(packet), user);
      if (packet[0] === 0xfe) {
        const reader = new PacketReader(packet.subarray(1));
        const plugin = reader.zeroText();
        salt = reader.rest();
        this.#send(passwordProof(plugin, password, salt.subarray(0, 20)));
      } else if (packet[0] === 1) await this.#continueSha2(packet, password, salt);
      else throw notMysql();
    }
  }

  /** caching_sha2_password: 3 means success, 4 requests the password itself. */
  async #continueSha2(packet: Buffer, password: string, salt: Buffer): Promise<void> {
    if (packet[1] === 3) return;
    if (packet[1] !== 4) throw notMysql();
    if (this.#stream.isEncrypted) return this.#send(Buffer.from(`${password}\0`));
    this.#send(Buffer.from([2]));
    const key = await this.#packet();
    if (key[0] !== 1) throw notMysql();
    this.#send(encryptedPassword(password, salt.subarray(0, 20), key.toString("utf8", 1)));
  }

  /** Packet header: 3 bytes length, 1 byte sequence number, which continues the one of the server. */
  #send(body: Buffer): void {
    const head = Buffer.alloc(4);
    head.writeUIntLE(body.length, 0, 3);
    head[3] = this.#sequence++ & 0xff;
    this.#stream.write(Buffer.concat([head, body]));
  }

  async #packet(): Promise<Buffer> {
    const head = await this.#stream.read(4);
    const length = head.readUIntLE(0, 3);
    if (length === 0 || length > maxPacketBytes) throw notMysql();
    this.#sequence = (head[3] ?? 0) + 1;
    return await this.#stream.read(length);
  }
}

function greetingIn(packet: Buffer): Greeting {
  if (packet[0] === 0xff) throw loginError(serverError(packet));
  if (packet[0] !== 10) throw notMysql();
  const reader = new PacketReader(packet.subarray(1));
  const version = reader.zeroText();
  // Thread id.
  reader.skip(4);
  const salt = reader.bytes(8);
  reader.skip(1);
  const low = reader.bytes(2).readUInt16LE(0);
  // Character set and status.
  reader.skip(3);
  const high = reader.bytes(2).readUInt16LE(0);
  // Length of the salt, and 10 reserved bytes.
  reader.skip(11);
  const second = reader.bytes(12);
  reader.skip(1);
  const capabilities = ((high << 16) | low) >>> 0;
  return { version, salt: Buffer.concat([salt, second]), plugin: reader.zeroText(), capabilities };
}

function columnIn(packet: Buffer): string {
  const reader = new PacketReader(packet);
  // Skips catalogue, schema, table and original table.
  for (let skipped = 0; skipped < 4; skipped++) reader.lengthText();
  return (reader.lengthText() ?? "").toLowerCase();
}

const withoutNul = (text: string): string => text.replaceAll("\0", "");

/** `details.errno` is the server's error number; the message is the server's text. */
function serverError(packet: Buffer): CoralError {
  const errno = packet.length >= 3 ? packet.readUInt16LE(1) : 0;
  // The message follows the SQLSTATE, which is `#` and 5 characters.
  const text = packet.toString("utf8", 3).replace(/^#.{5}/, "");
  // Interrupted by its time limit.
  const code = errno === 1969 || errno === 3024 ? "timeout" : "unavailable";
  return new CoralError({ code, message: `${text} (${errno})`, details: { errno } });
}

function loginError({ message, details }: CoralError, user?: string): CoralError {
  // ER_ACCESS_DENIED_ERROR, ER_ACCESS_DENIED_NO_PASSWORD_ERROR.
  const isWrong = details["errno"] === 1045 || details["errno"] === 1698;
  const fix = isWrong ? "; check user and password in the credentials file, and the host of the account" : "";
  return new CoralError({
    code: isWrong ? "unauthenticated" : "unavailable",
    message: `cannot log in to the database${user === undefined ? "" : ` as "${user}"`}: ${message}${fix}`,
    details,
  });
}

const notMysql = (): CoralError =>
  new CoralError({ code: "unavailable", message: "cannot read from the database: it does not speak the MySQL protocol" });
