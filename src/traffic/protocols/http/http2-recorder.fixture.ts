/** Real connections through a recording proxy, and a decoder that is fed with the recording. */

import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import type { TrafficRole } from "../../core/messages.ts";
import type { FinishedRequest, ProtocolDecoder } from "../../core/protocol-decoder.ts";
import { createHttp2Decoder } from "./http2-stream.ts";
import { FrameWalk } from "./http2-walk.fixture.ts";

export interface Piece {
  isRequest: boolean;
  bytes: Buffer;
}

export interface Observed {
  decoder: ProtocolDecoder;
  requests: FinishedRequest[];
  undecoded: number;
}

export function observer(role: TrafficRole = "server", isCapturing = false): Observed {
  const observed: Observed = { requests: [], undecoded: 0, decoder: undefined as never };
  observed.decoder = createHttp2Decoder({
    role,
    isCapturing: () => isCapturing,
    sink: {
      finished: (request) => observed.requests.push(request),
      undecoded: (count) => {
        observed.undecoded += count;
      },
    },
  });
  return observed;
}

/** Feeds pieces as reads of at most `readBytes`, one microsecond apart. */
export function feed(
  observed: Observed,
  pieces: readonly Piece[],
  { readBytes = 65_536, isJoinedMidway = false, pieceBytes = 4096 } = {},
): void {
  const options = { isJoinedMidway, pieceBytes };
  const requests = new FrameWalk((chunk) => observed.decoder.onRequestBytes(chunk), options);
  const replies = new FrameWalk((chunk) => observed.decoder.onReplyBytes(chunk), { ...options, isJoinedMidway: true });
  let atNs = 1_000_000;
  for (const { isRequest, bytes } of pieces) {
    for (let at = 0; at < bytes.length; at += readBytes) {
      atNs += 1000;
      (isRequest ? requests : replies).push(bytes.subarray(at, at + readBytes), atNs, isRequest ? atNs - 400 : 0);
    }
  }
}

/** A proxy that records all bytes. */
export async function recorder(port: number): Promise<{ port: number; pieces: Piece[]; close: () => void }> {
  const pieces: Piece[] = [];
  const sockets = new Set<Socket>();
  const proxy: Server = createServer((client) => {
    const server = connect(port, "127.0.0.1");
    for (const [from, to, isRequest] of [
      [client, server, true],
      [server, client, false],
    ] as const) {
      sockets.add(from);
      from.on("data", (bytes) => {
        pieces.push({ isRequest, bytes });
        to.write(bytes);
      });
      from.on("close", () => to.destroy());
      from.on("error", () => to.destroy());
    }
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  const close = (): void => {
    for (const socket of sockets) socket.destroy();
    proxy.close();
  };
  return { port: (proxy.address() as AddressInfo).port, pieces, close };
}

/** Route, status and count. */
export function summary(requests: readonly FinishedRequest[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { protocol, method, route, status, isError } of requests) {
    const key = `${protocol} ${method} ${route} ${status}${isError ? " error" : ""}`;
    counts[key] = (counts[key] ?? 0) + 1;
  }
  return counts;
}
