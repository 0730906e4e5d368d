/** A Connect transport over an existing HTTP/2 session. It never reconnects: that is up to the owner of the session. */

import { type ClientHttp2Session, connect } from "node:http2";
import type { Duplex } from "node:stream";
import { Code, ConnectError, type Interceptor, type Transport } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { receivedMemoryOf } from "../http/received-memory.ts";

/** Only a label: requests carry it as :authority. */
const authority = "http://coral";

/** Flow-control window per stream: enough for 10 MB/s at a round trip of 100 ms. */
const streamWindowBytes = 1024 * 1024;
/** Flow-control window of the session, larger, so that a stream that waits for the disk does not block the others. */
const sessionWindowBytes = 4 * streamWindowBytes;

/** Largest frame of a peer. With the protocol's default of 16 KiB, the cost per frame would dominate. */
const frameBytes = 256 * 1024;

/** The HTTP/2 client over an open, checked connection. */
export function createClientSession(socket: Duplex): ClientHttp2Session {
  const session = connect(authority, {
    createConnection: () => socket,
    settings: { enablePush: false, initialWindowSize: streamWindowBytes, maxFrameSize: frameBytes },
    // Mebibytes. The default of 10 would refuse streams while one large reply is on its way.
    maxSessionMemory: 64,
  });
  session.once("connect", () => session.setLocalWindowSize(sessionWindowBytes));
  return session;
}

export interface SessionTransportOptions {
  maxReplyBytes: number;
  /** Reason for "Cannot finish the call: …" once the session is closed. */
  closedReason: () => string;
  /** Called when bytes arrive: the peer is alive. */
  onActivity?: () => void;
}

/** Uses the Connect protocol with binary messages. Closing the session is up to its owner. */
export function createSessionTransport(session: ClientHttp2Session, options: SessionTransportOptions): Transport {
  return createConnectTransport({
    httpVersion: "2",
    baseUrl: authority,
    useBinaryFormat: true,
    readMaxBytes: options.maxReplyBytes,
    // Row batches are compressed already; gzip would cost more than it saves.
    acceptCompression: [],
    interceptors: [failWithSession(session, options)],
    sessionManager: {
      authority,
      request: (method, path, headers, requestOptions) => {
        if (session.closed || session.destroyed) {
          return Promise.reject(new ConnectError(`Cannot call ${path}: ${options.closedReason()}`, Code.Unavailable));
        }
        const stream = session.request({ ...headers, ":method": method, ":path": path }, requestOptions);
        // Messages may keep parts of received buffers.
        receivedMemoryOf(session).keptBy(stream);
        return Promise.resolve(stream);
      },
      notifyResponseByteRead: () => options.onActivity?.(),
    },
  });
}

/**
 * When its session ends, a call may hang forever, or look as if the caller cancelled it or the agent aborted it. This interceptor fails it with
 * `unavailable`. A stream is in progress until its last message was read.
 */
function failWithSession(session: ClientHttp2Session, options: SessionTransportOptions): Interceptor {
  // Not AbortSignal.any() or a shared promise: both would keep an entry per call for the life of the session.
  const inProgress = new Set<AbortController>();
  const closedError = (): ConnectError => new ConnectError(`Cannot finish the call: ${options.closedReason()}`, Code.Unavailable);
  session.once("close", () => {
    for (const controller of inProgress) controller.abort(closedError());
  });
  return (next) => async (request) => {
    const controller = new AbortController();
    const onAbort = (): void => controller.abort(request.signal.reason);
    request.signal.addEventListener("abort", onAbort, { once: true });
    if (request.signal.aborted) onAbort();
    inProgress.add(controller);
    const release = (): void => {
      inProgress.delete(controller);
      request.signal.removeEventListener("abort", onAbort);
    };
    const explain = (error: unknown, codes: readonly Code[]): unknown => {
      const isCut = session.destroyed && !request.signal.aborted && codes.includes(ConnectError.from(error).code);
      return isCut ? closedError() : error;
    };
    try {
      const response = await next({ ...request, signal: controller.signal });
      if (!response.stream) {
        release();
        return response;
      }
      // Connect reports a stream that ends without its last frame as a protocol error.
      const read = readMessages(response.message, release, (error) => explain(error, [...cutCodes, Code.InvalidArgument, Code.Internal]));
      return { ...response, message: read };
    } catch (error) {
      release();
      throw explain(error, cutCodes);
    }
  };
}

const cutCodes: readonly Code[] = [Code.Canceled, Code.Aborted];

async function* readMessages<T>(messages: AsyncIterable<T>, release: () => void, explain: (error: unknown) => unknown): AsyncGenerator<T> {
  try {
    yield* messages;
  } catch (error) {
    throw explain(error);
  } finally {
    release();
  }
}
