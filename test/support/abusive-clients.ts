/** Abusive clients of a daemon's listener. Each resolves when the daemon disconnects it, or when the attack ends. */

import { connect as connectHttp2 } from "node:http2";
import { connect as connectTcp, type NetConnectOpts, type Socket } from "node:net";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { seededBytes } from "./seeded-random.ts";

export interface Attack {
  /** A port or a Unix socket. */
  target: NetConnectOpts & { port?: number };
  random: () => number;
  /** Ends all clients that are still connected. */
  over: AbortSignal;
}

type Outcome = "disconnected" | "attack ended";

/** Resolves when the other end closes the socket; destroys it at the end of the attack. */
function untilClosed(socket: Socket, over: AbortSignal): Promise<Outcome> {
  return new Promise((resolve) => {
    const onOver = (): void => {
      resolve("attack ended");
      socket.destroy();
    };
    socket.on("error", () => undefined);
    socket.on("data", () => undefined);
    socket.once("close", () => {
      over.removeEventListener("abort", onOver);
      resolve("disconnected");
    });
    over.addEventListener("abort", onOver, { once: true });
    if (over.aborted) onOver();
  });
}

/** Connects and sends nothing. */
export function sendNothing({ target, over }: Attack): Promise<Outcome> {
  return untilClosed(connectTcp(target), over);
}

/** Sends `start`, then `drop` every 500 ms. */
export async function drip({ target, over }: Attack, start: string | Buffer, drop: string): Promise<Outcome> {
  const socket = connectTcp(target);
  socket.write(start);
  const timer = setInterval(() => socket.writable && socket.write(drop), 500);
  try {
    return await untilClosed(socket, over);
  } finally {
    clearInterval(timer);
  }
}

/** Sends bytes and waits for the connection to end. */
export function sendBytes({ target, over }: Attack, bytes: string | Buffer): Promise<Outcome> {
  const socket = connectTcp(target);
  socket.end(bytes);
  return untilClosed(socket, over);
}

export interface ClientCertificate {
  cert: string;
  key: string;
}

function dial({ target }: Attack, alpn: string, certificate?: ClientCertificate): TLSSocket {
  return connectTls({ ...target, ALPNProtocols: [alpn], rejectUnauthorized: false, minVersion: "TLSv1.3", ...certificate });
}

/** Negotiates a protocol, then sends garbage. */
export function sendInsideTls(attack: Attack, alpn: string, bytes: Buffer, certificate?: ClientCertificate): Promise<Outcome> {
  const socket = dial(attack, alpn, certificate);
  socket.once("secureConnect", () => socket.write(bytes));
  return untilClosed(socket, attack.over);
}

/** One RPC with an invalid body. Returns the HTTP status, or 0 if the stream was reset. */
export function callRpc(attack: Attack, path: string, body: Buffer, headers: Record<string, string> = {}): Promise<number> {
  return new Promise((resolve) => {
    const session = connectHttp2("https://colony", { createConnection: () => dial(attack, "h2") });
    const finish = (status: number): void => {
      resolve(status);
      session.destroy();
    };
    session.on("error", () => finish(0));
    session.once("close", () => finish(0));
    const stream = session.request({ ":method": "POST", ":path": path, "content-type": "application/proto", ...headers });
    stream.on("error", () => finish(0));
    stream.once("response", (reply) => finish(Number(reply[":status"])));
    stream.resume();
    stream.end(body);
  });
}

/** The start of a TLS handshake that announces more bytes than it sends. */
export function halfHello(random: () => number): Buffer {
  return Buffer.concat([Buffer.from([0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03]), seededBytes(random, 40)]);
}
