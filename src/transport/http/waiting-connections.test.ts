import { once } from "node:events";
import { createServer, get } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { expect, it } from "vitest";
import { limitConnections } from "./waiting-connections.ts";

it("limitConnections() serves new clients while slow ones hold all connections", async () => {
  const max = 8;
  const server = createServer((request, response) => {
    request.resume();
    request.on("end", () => response.end("ok"));
  });
  limitConnections(server, max);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const slow: Socket[] = [];
  const starts = ["", "GET / HT", "GET / HTTP/1.1\r\nHost: x\r\nX-", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc"];
  for (let index = 0; index < 3 * max; index++) {
    const socket = connect(port, "127.0.0.1");
    socket.on("error", () => undefined);
    await once(socket, "connect");
    socket.write(starts[index % starts.length] ?? "");
    slow.push(socket);
  }
  const status = async (): Promise<number> => {
    const request = get({ port, host: "127.0.0.1", agent: false });
    const [response] = (await once(request, "response")) as [import("node:http").IncomingMessage];
    response.resume();
    return response.statusCode ?? 0;
  };
  for (let index = 0; index < 5; index++) expect(await status()).toBe(200);
  for (const socket of slow) socket.destroy();
  server.closeAllConnections();
  server.close();
});
