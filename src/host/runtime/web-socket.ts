/** A minimal WebSocket client (RFC 6455) for the streams of container runtimes: binary messages over plain HTTP. */

import { createHash, randomBytes } from "node:crypto";
import { request } from "node:http";
import type { Socket } from "node:net";
import { CoralError } from "../../base/errors.ts";

export interface WebSocketOptions {
  url: string;
  protocol: string;
  timeoutMs: number;
  signal: AbortSignal;
}

export interface WebSocketEvents {
  onMessage: (data: Buffer) => void;
  /** Once. `error` is absent after a proper end. */
  onEnd: (error?: Error) => void;
}

export interface WebSocketConnection {
  /** False: wait for `drained`. */
  send(data: Uint8Array): boolean;
  drained(): Promise<void>;
  pause(): void;
  resume(): void;
  close(): void;
}

/** A message of the runtime is one read of a pipe: 32 KiB. */
const maxMessageBytes = 4 * 1024 * 1024;
const opcode = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;
const acceptSalt = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

export async function openWebSocket(options: WebSocketOptions, events: WebSocketEvents): Promise<WebSocketConnection> {
  const { socket, head } = await upgrade(options);
  let isOver = false;
  const end = (error?: Error): void => {
    if (isOver) return;
    isOver = true;
    options.signal.removeEventListener("abort", onAbort);
    socket.destroy();
    events.onEnd(error);
  };
  const onAbort = (): void => end(new CoralError({ code: "cancelled", message: "the program in the container was cancelled" }));
  const reader = createFrameReader({
    onMessage: events.onMessage,
    onPing: (data) => socket.write(encodeFrame(opcode.pong, data)),
    onClose: () => end(),
  });
  const take = (data: Buffer): void => {
    try {
      reader(data);
    } catch (error) {
      end(error instanceof Error ? error : new Error(String(error)));
    }
  };
  socket.on("data", take);
  socket.on("error", end);
  socket.on("close", () => end(new CoralError({ code: "unavailable", message: "the connection to the container runtime was lost" })));
  options.signal.addEventListener("abort", onAbort);
  if (head.length > 0) take(head);
  return {
    send: (data) => socket.write(encodeFrame(opcode.binary, data)),
    drained: () => new Promise((resolve) => (socket.writableNeedDrain ? socket.once("drain", resolve) : resolve())),
    pause: () => socket.pause(),
    resume: () => socket.resume(),
    close: () => {
      if (!isOver) socket.write(encodeFrame(opcode.close, Buffer.from([0x03, 0xe8])));
      end();
    },
  };
}

function upgrade({ url, protocol, timeoutMs, signal }: WebSocketOptions): Promise<{ socket: Socket; head: Buffer }> {
  return new Promise((resolve, reject) => {
    const key = randomBytes(16).toString("base64");
    const accept = createHash("sha1").update(`${key}${acceptSalt}`).digest("base64");
    const headers = {
      connection: "Upgrade",
      upgrade: "websocket",
      "sec-websocket-key": key,
      "sec-websocket-version": "13",
      "sec-websocket-protocol": protocol,
    };
    const asking = request(url, {
      method: "GET",
      headers,
      agent: false,
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
    });
    asking.on("upgrade", (response, socket, head) => {
      if (response.headers["sec-websocket-accept"] === accept) return resolve({ socket, head });
      socket.destroy();
      reject(new CoralError({ code: "invalid", message: "the container runtime's stream endpoint does not support WebSocket" }));
    });
    asking.on("response", (response) => {
      response.resume();
      reject(
        new CoralError({ code: "unavailable", message: `the container runtime's stream endpoint returned HTTP ${response.statusCode}` }),
      );
    });
    asking.on("error", reject);
    asking.end();
  });
}

/** From a client every frame is masked. */
export function encodeFrame(code: number, data: Uint8Array): Buffer {
  const lengthBytes = data.length < 126 ? 0 : data.length < 65_536 ? 2 : 8;
  const frame = Buffer.alloc(6 + lengthBytes + data.length);
  frame[0] = 0x80 | code;
  frame[1] = 0x80 | (lengthBytes === 0 ? data.length : lengthBytes === 2 ? 126 : 127);
  if (lengthBytes === 2) frame.writeUInt16BE(data.length, 2);
  if (lengthBytes === 8) frame.writeBigUInt64BE(BigInt(data.length), 2);
  const mask = randomBytes(4);
  mask.copy(frame, 2 + lengthBytes);
  const start = 6 + lengthBytes;
  for (let at = 0; at < data.length; at++) frame[start + at] = (data[at] ?? 0) ^ (mask[at & 3] ?? 0);
  return frame;
}

export interface FrameHandlers {
  onMessage: (data: Buffer) => void;
  onPing: (data: Buffer) => void;
  onClose: () => void;
}

/** Parses bytes as they arrive, split anywhere. Throws `invalid` for anything that is not a server frame. */
export function createFrameReader({ onMessage, onPing, onClose }: FrameHandlers): (data: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0);
  let parts: Buffer[] = [];
  let partsBytes = 0;
  const handle = (first: number, data: Buffer): void => {
    const code = first & 0x0f;
    if (code === opcode.close) return onClose();
    if (code === opcode.ping) return onPing(data);
    if (code === opcode.pong) return;
    partsBytes += data.length;
    if (partsBytes > maxMessageBytes) throw broken("a message is too long");
    parts.push(data);
    if ((first & 0x80) === 0) return;
    const message = parts.length === 1 ? data : Buffer.concat(parts);
    parts = [];
    partsBytes = 0;
    onMessage(message);
  };
  return (data) => {
    rest = rest.length === 0 ? data : Buffer.concat([rest, data]);
    for (;;) {
      const frame = frameAt(rest);
      if (frame === null) return;
      rest = rest.subarray(frame.endBytes);
      handle(frame.first, frame.data);
    }
  };
}

function frameAt(bytes: Buffer): { first: number; data: Buffer; endBytes: number } | null {
  const [first, second] = bytes;
  if (first === undefined || second === undefined) return null;
  if ((second & 0x80) !== 0) throw broken("the server sent a masked frame");
  if ((first & 0x70) !== 0) throw broken("an extension that was not negotiated");
  const short = second & 0x7f;
  const startBytes = short < 126 ? 2 : short === 126 ? 4 : 10;
  if (bytes.length < startBytes) return null;
  const length = short < 126 ? short : short === 126 ? bytes.readUInt16BE(2) : Number(bytes.readBigUInt64BE(2));
  if (length > maxMessageBytes) throw broken("a frame is too long");
  const endBytes = startBytes + length;
  return bytes.length < endBytes ? null : { first, data: bytes.subarray(startBytes, endBytes), endBytes };
}

function broken(why: string): CoralError {
  return new CoralError({ code: "invalid", message: `Cannot read the streams of the container runtime: ${why}` });
}
