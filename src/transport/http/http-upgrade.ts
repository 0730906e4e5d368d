/** The upgrade of an HTTP/1.1 connection, on a server that also gets requests whose upgrade it does not know. */

import { type IncomingMessage, type Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { framesProtocol } from "../commands/frame-stream.ts";

/** A connection that its client wants to turn into frames; `head` came with the request. */
export interface Upgrade {
  socket: Socket;
  head: Buffer;
}

/**
 * Calls `onUpgrade` for requests with `Upgrade: coral-frames/1`; its response is for refusals. All others are handled as if they had not asked:
 * clients that offer HTTP/2 on plain connections send `Upgrade: h2c` with every request and expect an ordinary answer.
 */
export function acceptUpgrades(
  server: Server,
  onUpgrade: (request: IncomingMessage, response: ServerResponse, upgrade: Upgrade) => void,
): void {
  server.on("upgrade", (request: IncomingMessage, socket: Socket, head: Buffer) => {
    // Cut connections are told by "close"; node has taken its own listener away.
    socket.on("error", () => undefined);
    if (request.headers.upgrade?.toLowerCase() !== framesProtocol) {
      serveWithoutUpgrade(server, request, socket, head);
      return;
    }
    const response = new ServerResponse(request);
    response.shouldKeepAlive = false;
    response.assignSocket(socket);
    response.once("finish", () => socket.destroySoon());
    onUpgrade(request, response, { socket, head });
  });
}

/** Answers 101 and takes the connection from its HTTP response. */
export function completeUpgrade(response: ServerResponse, socket: Socket): void {
  response.detachSocket(socket);
  socket.setTimeout(0);
  socket.setNoDelay(true);
  socket.write(`HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${framesProtocol}\r\n\r\n`);
}

/** Node has parsed the head and would leave the body to us; so the server reads it all once more, without the wish. */
function serveWithoutUpgrade(server: Server, request: IncomingMessage, socket: Socket, head: Buffer): void {
  const lines = [`${request.method} ${request.url} HTTP/${request.httpVersion}`];
  for (let at = 0; at + 1 < request.rawHeaders.length; at += 2) {
    const name = request.rawHeaders[at] ?? "";
    const value = request.rawHeaders[at + 1] ?? "";
    const kept = /^connection$/i.test(name) ? withoutUpgrade(value) : value;
    if (kept !== "" && !/^(?:upgrade|http2-settings)$/i.test(name)) lines.push(`${name}: ${kept}`);
  }
  if (head.length > 0) socket.unshift(head);
  socket.unshift(Buffer.from(`${lines.join("\r\n")}\r\n\r\n`, "latin1"));
  server.emit("connection", socket);
}

function withoutUpgrade(connection: string): string {
  const words = connection.split(",").map((word) => word.trim());
  return words.filter((word) => !/^(?:upgrade|http2-settings)$/i.test(word)).join(", ");
}
