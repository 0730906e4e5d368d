import type { IncomingMessage, Server } from "node:http";
import type { Socket } from "node:net";

/**
 * Bounds the connections of an HTTP/1.1 server so that silent or slow ones cannot block others. Above the limit, the connection that has waited longest
 * without a complete request is closed. A new connection is refused only if all others have requests in progress.
 */
export function limitConnections(server: Server, max: number): void {
  /** Connections without a complete request, oldest first. */
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
  // Registered first, because other listeners may read the request.
  server.prependListener("request", (request: IncomingMessage, response) => {
    const { socket } = request;
    request.once("end", () => waiting.delete(socket));
    response.once("close", () => {
      if (!socket.destroyed) waiting.add(socket);
    });
  });
}
