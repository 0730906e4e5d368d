/**
 * Whole files through a tunnel, beside its calls: one HTTP/2 stream each, filled from the file by Node itself. As messages of a call the same bytes would be
 * copied three times at either end.
 */

import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  constants,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type IncomingHttpHeaders,
} from "node:http2";
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
  signal: AbortSignal;
}

const prefix = "/files/";
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
  else {
    stream.respondWithFile(
      found.path,
      { ":status": 200 },
      {
        offset,
        length: found.sizeBytes - offset,
        // It was removed between the look and now.
        onError: () => {
          if (stream.headersSent || stream.destroyed) stream.close(constants.NGHTTP2_INTERNAL_ERROR);
          else stream.respond({ ":status": goneStatus }, { endStream: true });
        },
      },
    );
  }
  return true;
}

/**
 * The colony's end: the file's bytes as they come. Throws `unsupported` when the agent serves no files, `not-found` when it has none of this name,
 * `timeout` and `unavailable` for what happens on the way.
 */
export async function* readServedFile(
  session: ClientHttp2Session,
  name: string,
  { offsetBytes = 0, idleTimeoutMs, signal }: ReadFileOptions,
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
    const status = await statusOf(stream);
    if (status === 404) throw fail("unsupported", "it serves no files");
    if (status === goneStatus) throw fail("not-found", "it is not there any more; list again");
    if (status !== 200) throw fail("unavailable", `it answered ${status}`);
    for await (const chunk of stream as AsyncIterable<Buffer>) yield chunk;
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

function statusOf(stream: ClientHttp2Stream): Promise<number> {
  return new Promise((resolve, reject) => {
    stream.once("response", (headers: IncomingHttpHeaders) => resolve(Number(headers[":status"])));
    stream.once("error", reject);
    stream.once("close", () => reject(new Error("it ended without an answer")));
  });
}
