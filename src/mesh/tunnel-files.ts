/**
 * Whole files through a tunnel, beside its calls: one HTTP/2 stream each, read and handed over in large pieces. As messages of a call the same bytes would
 * be copied three times at either end.
 */

import { createReadStream } from "node:fs";
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  constants,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from "node:http2";
import { pipeline } from "node:stream";
import { CoralError } from "../base/errors.ts";

/** A file that may be read, as far as `sizeBytes`. */
export interface ServedFile {
  path: string;
  sizeBytes: number;
}

/** Finds what a colony asks for by its name, of letters and digits in parts, such as `segments/<epoch>/span/17`; undefined when there is none (any more). */
export type FindServedFile = (name: string) => ServedFile | undefined;

export interface ReadFileOptions {
  /** Default 0. */
  offsetBytes?: number;
  /** Fails with `timeout` when so long nothing comes. */
  idleTimeoutMs: number;
  /** Bytes have arrived. */
  onActivity?: () => void;
  signal: AbortSignal;
}

const prefix = "/files/";
/** What an agent reads at once. */
const pieceBytes = 512 * 1024;
/** What a reader is given at once: frames bring 16 KiB, and each hand-over from one loop to the next costs as much as to copy those. */
const blockBytes = 1024 * 1024;
/** It was there, or could be: list again. An agent that serves no files says 404. */
const goneStatus = 410;

/** The agent's end. False: the request is about something else. */
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
  // The colony may hang up at any time; "close" follows.
  stream.on("error", () => undefined);
  if (offset === found.sizeBytes) response.writeHead(200).end();
  else sendFile(stream, found, offset);
  return true;
}

/** Not Node's `respondWithFile`: that reads 64 KiB at a time, each by way of another thread, and takes more than twice the processor time. */
function sendFile(stream: ServerHttp2Stream, { path, sizeBytes }: ServedFile, offset: number): void {
  const file = createReadStream(path, { start: offset, end: sizeBytes - 1, highWaterMark: pieceBytes });
  // Most likely it was removed between the look and now.
  const refuse = (): void => {
    if (!stream.destroyed) stream.respond({ ":status": goneStatus }, { endStream: true });
  };
  file.once("error", refuse);
  file.once("open", () => {
    file.off("error", refuse);
    if (stream.destroyed) {
      file.destroy();
      return;
    }
    stream.respond({ ":status": 200, "content-length": sizeBytes - offset });
    // A file that cannot be read to its end breaks the stream off; the colony asks again.
    pipeline(file, stream, () => undefined);
  });
}

/**
 * The colony's end: the file's bytes in blocks of a mebibyte, each with memory of its own that the reader may give away. Throws `unsupported` when the agent
 * serves no files, `not-found` when it has none of this name, `timeout` and `unavailable` for what happens on the way, after what has come until then.
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
  let isLate = false;
  const cancel = (): void => stream.close(constants.NGHTTP2_CANCEL);
  stream.setTimeout(idleTimeoutMs, () => {
    isLate = true;
    cancel();
  });
  signal.addEventListener("abort", cancel, { once: true });
  try {
    const { status, sizeBytes } = await answerOf(stream);
    if (status === 404) throw fail("unsupported", "it serves no files");
    if (status === goneStatus) throw fail("not-found", "it is not there any more; list again");
    if (status !== 200) throw fail("unavailable", `it answered ${status}`);
    yield* inBlocks(stream as AsyncIterable<Buffer>, sizeBytes, onActivity);
    if (stream.rstCode !== constants.NGHTTP2_NO_ERROR) throw fail("unavailable", "it was broken off");
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof CoralError) throw error;
    throw isLate ? fail("timeout", `nothing came for ${idleTimeoutMs} ms`) : fail("unavailable", "the tunnel was lost", error);
  } finally {
    signal.removeEventListener("abort", cancel);
    if (!stream.destroyed) stream.close(constants.NGHTTP2_CANCEL);
  }
}

/** What came before a failure is handed over before it is thrown: the file is taken up there. */
async function* inBlocks(
  chunks: AsyncIterable<Buffer>,
  sizeBytes: number,
  onActivity: (() => void) | undefined,
): AsyncGenerator<Uint8Array, void, undefined> {
  let leftBytes = sizeBytes;
  // What was announced is a hint: whatever comes is read to its end.
  const nextBlock = (): Buffer => Buffer.allocUnsafeSlow(leftBytes > 0 ? Math.min(blockBytes, leftBytes) : blockBytes);
  let block: Buffer | undefined;
  let filled = 0;
  let failure: { error: unknown } | undefined;
  try {
    for await (const chunk of chunks) {
      onActivity?.();
      for (let at = 0; at < chunk.length; ) {
        block ??= nextBlock();
        const copied = chunk.copy(block, filled, at);
        at += copied;
        filled += copied;
        if (filled < block.length) continue;
        leftBytes -= filled;
        yield block;
        block = undefined;
        filled = 0;
      }
    }
  } catch (error) {
    failure = { error };
  }
  if (block) yield block.subarray(0, filled);
  if (failure) throw failure.error;
}

function answerOf(stream: ClientHttp2Stream): Promise<{ status: number; sizeBytes: number }> {
  return new Promise((resolve, reject) => {
    stream.once("response", (headers: IncomingHttpHeaders) => {
      const sizeBytes = Number(headers["content-length"] ?? Number.POSITIVE_INFINITY);
      resolve({ status: Number(headers[":status"]), sizeBytes });
    });
    stream.once("error", reject);
    stream.once("close", () => reject(new Error("it ended without an answer")));
  });
}
