import type { IncomingMessage, Server } from "node:http";
import type { Socket } from "node:net";

/**
 * Bounds the connections of an HTTP/1.1 server so that those which send nothing, or send slowly, cannot keep others out: above the limit the one
 * that has waited longest without a whole request is closed. A new connection is refused only if all others have requests that are being served.
 */
export function limitConnections(server: Server, max: number): void {
  /** Without a whole request, oldest first. */
  const waiting = new Set<Socket>();
  let open = 0;
  server.on("connection", (socket: Socket) => {
    open++;
    socket.once("close", () => {
      open--;
      waiting.delete(socket);
    });
    if (open > max) {
      const [oldest = socket] = waiting;
      waiting.delete(oldest);
      oldest.destroy();
      if (oldest === socket) return;
    }
    waiting.add(socket);
  });
  // Listens first: others may take the request from its stream.
  server.prependListener("request", (request: IncomingMessage, response) => {
    const { socket } = request;
    request.once("end", () => waiting.delete(socket));
    response.once("close", () => {
      if (!socket.destroyed) waiting.add(socket);
    });
  });
}
