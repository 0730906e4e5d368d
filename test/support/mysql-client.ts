/** A minimal MySQL client: text and prepared statements, optionally pipelined. */

import { once } from "node:events";
import { connect, type Socket } from "node:net";

/** Protocol 4.1, authentication plug-ins, transactions. */
const capabilities = 0x200 | 0x8000 | 0x80000 | 0x2000;

export class MysqlClient implements Disposable {
  readonly #socket: Socket;
  readonly #waiting: (() => boolean)[] = [];
  #received = Buffer.alloc(0);

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setNoDelay();
    socket.on("data", (bytes) => {
      this.#received = Buffer.concat([this.#received, bytes]);
      while (this.#waiting[0]?.() === true) this.#waiting.shift();
    });
  }

  static async open(port: number): Promise<MysqlClient> {
    const socket = connect(port, "127.0.0.1");
    await once(socket, "connect");
    const client = new MysqlClient(socket);
    await client.#packet();
    const head = Buffer.alloc(32);
    head.writeUInt32LE(capabilities, 0);
    head.writeUInt32LE(1 << 24, 4);
    head[8] = 33;
    client.send(1, Buffer.concat([head, Buffer.from("root\0\0mysql_native_password\0")]));
    const answer = await client.#packet();
    if (answer[0] !== 0) throw new Error(`Cannot log in: ${answer.toString("latin1")}`);
    return client;
  }

  send(sequence: number, body: Buffer): void {
    const head = Buffer.alloc(4);
    head.writeUIntLE(body.length, 0, 3);
    head[3] = sequence;
    this.#socket.write(Buffer.concat([head, body]));
  }

  /** Returns the first packet of the response. */
  async query(text: string): Promise<Buffer> {
    this.send(0, Buffer.from(`\x03${text}`));
    return this.result();
  }

  /** Returns the statement id. */
  async prepare(text: string): Promise<number> {
    this.send(0, Buffer.from(`\x16${text}`));
    const first = await this.#packet();
    // Column and parameter definitions follow, each list with its own end packet.
    for (const count of [first.readUInt16LE(5), first.readUInt16LE(7)])
      for (let left = count === 0 ? 0 : count + 1; left > 0; left--) await this.#packet();
    return first.readUInt32LE(1);
  }

  /** Executes a prepared statement with one numeric parameter. */
  async execute(statement: number, parameter: number): Promise<Buffer> {
    const body = Buffer.alloc(22);
    body[0] = 0x17;
    body.writeUInt32LE(statement, 1);
    body.writeUInt32LE(1, 6);
    body[11] = 1;
    body.writeUInt16LE(8, 12);
    body.writeBigInt64LE(BigInt(parameter), 14);
    this.send(0, body);
    return this.result();
  }

  async result(): Promise<Buffer> {
    const first = await this.#packet();
    if (first[0] === 0 || first[0] === 0xff) return first;
    for (let ends = 0; ends < 2; ) {
      const packet = await this.#packet();
      if (packet[0] === 0xff) return packet;
      if (packet[0] === 0xfe && packet.length < 9) ends++;
    }
    return first;
  }

  #packet(): Promise<Buffer> {
    return new Promise((resolve) => {
      const take = (): boolean => {
        const length = this.#received.length < 4 ? Number.POSITIVE_INFINITY : 4 + this.#received.readUIntLE(0, 3);
        if (this.#received.length < length) return false;
        resolve(Buffer.from(this.#received.subarray(4, length)));
        this.#received = this.#received.subarray(length);
        return true;
      };
      if (this.#waiting.length > 0 || !take()) this.#waiting.push(take);
    });
  }

  [Symbol.dispose](): void {
    this.#socket.destroy();
  }
}
