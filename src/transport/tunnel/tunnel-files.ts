/**
 * Transfers files through a tunnel, in parallel with its calls: one HTTP/2 stream each, in large pieces. As messages of an RPC, the bytes would be
 * copied three times at each end.
 */

import { type FileHandle, open } from "node:fs/promises";
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  constants,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from "node:http2";
import { CoralError } from "../../base/errors.ts";
import { releaseBytes } from "../../base/release-bytes.ts";
import { type ReceivedMemory, receivedMemoryOf } from "../http/received-memory.ts";

/** A file that may be read, up to `sizeBytes`. */
export interface ServedFile {
  path: string;
  sizeBytes: number;
}

/** Finds a file by its name, such as `segments/<epoch>/span/17`; undefined if it does not exist (any more). */
export type FindServedFile = (name: string) => ServedFile | undefined;

export interface ReadFileOptions {
  /** Default 0. */
  offsetBytes?: number;
  /** Fails with `timeout` after this time without data. */
  idleTimeoutMs: number;
  /** Called when bytes arrive. */
  onActivity?: () => void;
  signal: AbortSignal;
}

const prefix = "/files/";
/** Bytes that an agent reads at once. */
const pieceBytes = 512 * 1024;
/** Bytes that a reader gets at once. Frames have 16 KiB, and passing one between async loops costs as much as copying it. */
const blockBytes = 1024 * 1024;
/** Unread blocks above which the agent is paused. */
const maxWaitingBlocks = 2;
/** HTTP 410: the file does not exist any more, so list again. An agent that serves no files replies 404. */
const goneStatus = 410;

/** The agent's end. False if the request is not for a file. */
export function serveFile(request: Http2ServerRequest, response: Http2ServerResponse, find: FindServedFile): boolean {
  if (request.method !== "GET" || !request.url.startsWith(prefix)) return false;
  const [name = "", query = ""] = request.url.slice(prefix.length).split("?", 2);
  const offset = Number(/^from=(\d{1,15})$/.exec(query)?.[1] ?? 0);
  const found = find(name);
  if (found === undefined || offset > found.sizeBytes) {
    response.writeHead(goneStatus).end();
    return true;
  }
  const { stream } = response;
  // The colony may disconnect at any time; "close" follows.
  stream.on("error", () => undefined);
  if (offset === found.sizeBytes) response.writeHead(200).end();
  else void sendFile(stream, found, offset);
  return true;
}

/**
 * Neither Node's `respondWithFile`, which reads 64 KiB at a time on another thread, nor a read stream, which allocates memory for each piece. Other
 * streams send while this one reads.
 */
async function sendFile(stream: ServerHttp2Stream, { path, sizeBytes }: ServedFile, offset: number): Promise<void> {
  let handle: FileHandle;
  try {
    handle = await open(path);
  } catch {
    // Most likely it was removed since it was found.
    if (!stream.closed && !stream.destroyed) stream.respond({ ":status": goneStatus }, { endStream: true });
    return;
  }
  try {
    if (stream.closed || stream.destroyed) return;
    stream.respond({ ":status": 200, "content-length": sizeBytes - offset });
    const room = Buffer.allocUnsafeSlow(Math.min(pieceBytes, sizeBytes - offset));
    for (let at = offset; at < sizeBytes; ) {
      const { bytesRead } = await handle.read(room, 0, Math.min(room.length, sizeBytes - at), at);
      if (bytesRead === 0) throw new Error("the file was truncated");
      await written(stream, room.subarray(0, bytesRead));
      at += bytesRead;
    }
    stream.end();
    // Not after a failure: the session may still send a part of it.
    releaseBytes(room);
  } catch {
    // A file that cannot be read completely aborts the stream; the colony retries.
    stream.close(constants.NGHTTP2_INTERNAL_ERROR);
  } finally {
    // The file was only read: a failure to close it loses nothing.
    await handle.close().catch(() => undefined);
  }
}

/** Resolves when the session has sent the bytes; rejects if the stream closes before that. */
function written(stream: ServerHttp2Stream, bytes: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    const onClose = (): void => reject(new Error("the stream was closed"));
    stream.once("close", onClose);
    stream.write(bytes, (error) => {
      stream.off("close", onClose);
      if (error) reject(error);
      else resolve();
    });
  });
}

/**
 * The colony's end: yields the file in blocks of 1 MiB, each with its own memory, which the reader may transfer. Throws `unsupported` if the agent
 * serves no files, `not-found` if the file does not exist, and, after the bytes received so far, `timeout` or `unavailable`.
 */
export async function* readServedFile(
  session: ClientHttp2Session,
  name: string,
  { offsetBytes = 0, idleTimeoutMs, onActivity, signal }: ReadFileOptions,
): AsyncGenerator<Uint8Array, void, undefined> {
  const fail = (code: "unsupported" | "not-found" | "timeout" | "unavailable", state: string, cause?: unknown): CoralError =>
    new CoralError({ code, message: `Cannot read "${name}" of the agent: ${state}`, cause });
  if (session.closed || session.destroyed) throw fail("unavailable", "the tunnel is closed");
  signal.throwIfAborted();
  const stream = session.request({ ":method": "GET", ":path": `${prefix}${name}?from=${offsetBytes}` }, { endStream: true });
  const memory = receivedMemoryOf(session);
  memory.lentTo(stream);
  let isLate = false;
  const cancel = (): void => stream.close(constants.NGHTTP2_CANCEL);
  stream.setTimeout(idleTimeoutMs, () => {
    isLate = true;
    cancel();
  });
  signal.addEventListener("abort", cancel, { once: true });
  try {
    const { status, sizeBytes } = await responseOf(stream);
    if (status === 404) throw fail("unsupported", "it serves no files");
    if (status === goneStatus) throw fail("not-found", "it does not exist any more; list again");
    if (status !== 200) throw fail("unavailable", `it returned HTTP ${status}`);
    yield* inBlocks(stream, memory, sizeBytes, onActivity);
    if (stream.rstCode !== constants.NGHTTP2_NO_ERROR) throw fail("unavailable", "the stream was aborted");
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof CoralError) throw error;
    throw isLate ? fail("timeout", `no data for ${idleTimeoutMs} ms`) : fail("unavailable", "the tunnel was lost", error);
  } finally {
    signal.removeEventListener("abort", cancel);
    if (!stream.destroyed) stream.close(constants.NGHTTP2_CANCEL);
  }
}

/**
 * Delivers data that arrived before a failure before the error: the transfer resumes there. Uses events, because an iterator over the stream would wait
 * and join buffers for every few frames of 16 KiB.
 */
async function* inBlocks(
  stream: ClientHttp2Stream,
  memory: ReceivedMemory,
  sizeBytes: number,
  onActivity: (() => void) | undefined,
): AsyncGenerator<Uint8Array, void, undefined> {
  const full: Uint8Array[] = [];
  const blocks = new BlockFiller(sizeBytes, (block) => full.push(block));
  let wake = (): void => undefined;
  let isOver = false;
  let failure: { error: unknown } | undefined;
  const end = (): void => {
    isOver = true;
    wake();
  };
  stream.once("end", end).once("close", end);
  stream.once("error", (error) => {
    failure = { error };
    end();
  });
  stream.on("data", (part: Buffer) => {
    onActivity?.();
    blocks.add(part);
    memory.read(part);
    if (full.length >= maxWaitingBlocks) stream.pause();
    if (full.length > 0) wake();
  });
  for (;;) {
    const block = full.shift();
    if (block !== undefined) {
      if (full.length === 0 && stream.isPaused()) stream.resume();
      yield block;
    } else if (isOver) break;
    else {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  }
  const rest = blocks.rest();
  if (rest) yield rest;
  if (failure) throw failure.error;
}

/** Copies parts into blocks, each with its own memory. */
class BlockFiller {
  /** The announced size is a hint: the stream is read to its end. */
  #leftBytes: number;
  readonly #onFull: (block: Uint8Array) => void;
  #block: Buffer | undefined;
  #filled = 0;

  constructor(sizeBytes: number, onFull: (block: Uint8Array) => void) {
    this.#leftBytes = sizeBytes;
    this.#onFull = onFull;
  }

  add(part: Buffer): void {
    for (let at = 0; at < part.length; ) {
      const block = (this.#block ??= Buffer.allocUnsafeSlow(this.#leftBytes > 0 ? Math.min(blockBytes, this.#leftBytes) : blockBytes));
      const copied = part.copy(block, this.#filled, at);
      at += copied;
      this.#filled += copied;
      if (this.#filled < block.length) continue;
      this.#leftBytes -= this.#filled;
      this.#block = undefined;
      this.#filled = 0;
      this.#onFull(block);
    }
  }

  /** The filled part of the last block. */
  rest(): Uint8Array | undefined {
    return this.#block?.subarray(0, this.#filled);
  }
}

function responseOf(stream: ClientHttp2Stream): Promise<{ status: number; sizeBytes: number }> {
  return new Promise((resolve, reject) => {
    stream.once("response", (headers: IncomingHttpHeaders) => {
      const sizeBytes = Number(headers["content-length"] ?? Number.POSITIVE_INFINITY);
      resolve({ status: Number(headers[":status"]), sizeBytes });
    });
    stream.once("error", reject);
    stream.once("close", () => reject(new Error("it closed without a response")));
  });
}
