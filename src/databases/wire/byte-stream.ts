/** A connection to a database on this host, read in pieces of known length. Closes itself at its deadline. */

import { connect as connectTcp, isIP, type Socket } from "node:net";
import { networkInterfaces } from "node:os";
import { type TLSSocket, connect as upgradeToTls } from "node:tls";
import { CoralError } from "../../base/errors.ts";
import { isLoopback } from "../../base/ip-address.ts";

export interface DatabaseAddress {
  /** Must be an address of this host. */
  host: string;
  port: number;
  /** Unix socket, instead of host and port. */
  socketFile?: string;
  /** Other addresses of this host, such as those of its containers. */
  ownAddresses?: readonly string[];
}

export interface OpenOptions {
  /** Covers the whole session, from connecting to the last byte. */
  signal: AbortSignal;
  /** Limit on bytes from the server in total. Default 8 MiB. */
  maxBytes?: number;
}

const defaultMaxBytes = 8 * 1024 * 1024;

export class ByteStream implements Disposable {
  #socket: Socket;
  readonly #signal: AbortSignal;
  readonly #maxBytes: number;
  #chunks: Buffer[] = [];
  #buffered = 0;
  #total = 0;
  #failure: CoralError | undefined;
  #wake: (() => void) | undefined;
  #isEncrypted = false;
  readonly #onAbort = (): void => this.#fail(timeoutError());

  private constructor(socket: Socket, { signal, maxBytes = defaultMaxBytes }: OpenOptions) {
    this.#socket = socket;
    this.#signal = signal;
    this.#maxBytes = maxBytes;
    this.#listen(socket);
    signal.addEventListener("abort", this.#onAbort, { once: true });
  }

  static async open(address: DatabaseAddress, options: OpenOptions): Promise<ByteStream> {
    assertOwn(address);
    if (options.signal.aborted) throw timeoutError();
    const { host, port, socketFile } = address;
    const socket = socketFile === undefined ? connectTcp({ host, port }) : connectTcp({ path: socketFile });
    const stream = new ByteStream(socket, options);
    try {
      await new Promise<void>((resolve, reject) => {
        socket.once("connect", resolve);
        stream.#wake = () => reject(stream.#failure ?? closedError());
      });
    } catch (error) {
      stream[Symbol.dispose]();
      throw error;
    }
    stream.#wake = undefined;
    return stream;
  }

  /** Whether a cleartext password may be sent. */
  get isPrivate(): boolean {
    const { remoteAddress } = this.#socket;
    return this.#isEncrypted || remoteAddress === undefined || isLoopback(remoteAddress);
  }

  get isEncrypted(): boolean {
    return this.#isEncrypted;
  }

  write(bytes: Buffer): void {
    if (this.#failure === undefined) this.#socket.write(bytes);
  }

  async read(length: number): Promise<Buffer> {
    if (length > this.#maxBytes) throw tooLarge();
    await this.#until(() => this.#buffered >= length);
    return this.#take(length);
  }

  /** Reads up to the next CR LF, which is not part of the line. */
  async readLine(): Promise<string> {
    let line: string | undefined;
    await this.#until(() => {
      const end = this.#joined().indexOf("\r\n");
      if (end < 0) return false;
      line = this.#take(end).toString("utf8");
      this.#take(2);
      return true;
    });
    return line ?? "";
  }

  /** Resolves to false if nothing has arrived by then. */
  async waitForBytes(milliseconds: number): Promise<boolean> {
    const until = performance.now() + milliseconds;
    const timer = setTimeout(() => this.#wake?.(), milliseconds + 1);
    try {
      await this.#until(() => this.#buffered > 0 || performance.now() >= until);
      return this.#buffered > 0;
    } finally {
      clearTimeout(timer);
    }
  }

  /** The certificate is not verified: it names a public host, and the connection does not leave this host. */
  async startTls(): Promise<void> {
    const plain = this.#socket;
    plain.removeAllListeners();
    const secure: TLSSocket = upgradeToTls({ socket: plain, rejectUnauthorized: false });
    this.#socket = secure;
    this.#listen(secure);
    let isDone = false;
    secure.once("secureConnect", () => {
      isDone = true;
      this.#wake?.();
    });
    await this.#until(() => isDone);
    this.#isEncrypted = true;
  }

  [Symbol.dispose](): void {
    this.#signal.removeEventListener("abort", this.#onAbort);
    this.#socket.destroy();
  }

  #listen(socket: Socket): void {
    socket.on("data", (bytes: Buffer) => {
      this.#total += bytes.length;
      if (this.#total > this.#maxBytes) return this.#fail(tooLarge());
      this.#chunks.push(bytes);
      this.#buffered += bytes.length;
      this.#wake?.();
    });
    socket.on("error", (error: NodeJS.ErrnoException) => this.#fail(socketError(error)));
    socket.on("close", () => this.#fail(closedError()));
  }

  #fail(error: CoralError): void {
    this.#failure ??= error;
    this.#socket.destroy();
    this.#wake?.();
  }

  async #until(isReady: () => boolean): Promise<void> {
    while (!isReady()) {
      if (this.#failure) throw this.#failure;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      this.#wake = undefined;
    }
  }

  #joined(): Buffer {
    if (this.#chunks.length > 1) this.#chunks = [Buffer.concat(this.#chunks)];
    return this.#chunks[0] ?? Buffer.alloc(0);
  }

  #take(length: number): Buffer {
    const all = this.#joined();
    this.#chunks = all.length > length ? [all.subarray(length)] : [];
    this.#buffered -= length;
    return all.subarray(0, length);
  }
}

function assertOwn({ host, socketFile, ownAddresses = [] }: DatabaseAddress): void {
  if (socketFile !== undefined) return;
  if (isIP(host) !== 0) {
    if (isLoopback(host) || ownAddresses.includes(host)) return;
    const own = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
    if (own.some((item) => item.address === host)) return;
  }
  throw new CoralError({ code: "not-permitted", message: `cannot connect to "${host}": it is not an address of this machine` });
}

function socketError(error: NodeJS.ErrnoException): CoralError {
  const reason =
    error.code === "ECONNREFUSED"
      ? "nothing listens there"
      : error.code === "ENOENT"
        ? "the socket file does not exist"
        : (error.code ?? "the connection failed");
  return new CoralError({
    code: "unavailable",
    message: `cannot reach the database: ${reason}`,
    details: { refused: error.code === "ECONNREFUSED" },
  });
}

const closedError = (): CoralError =>
  new CoralError({ code: "unavailable", message: "cannot read from the database: it closed the connection" });

const timeoutError = (): CoralError =>
  new CoralError({ code: "timeout", message: "cannot read from the database: no response in time; it may be overloaded" });

const tooLarge = (): CoralError =>
  new CoralError({ code: "exhausted", message: "cannot read from the database: the response is too large" });
