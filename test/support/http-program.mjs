/** An HTTP/1 server and client for tests: `server` prints its port; `client <port>` sends one request per input line, which is JSON options. */

import * as http from "node:http";
import { createInterface } from "node:readline";

const [what, port] = process.argv.slice(2);
const print = (text) => process.stdout.write(`${text}\n`);
if (what === "server") {
  const server = http.createServer((request, response) => {
    request.resume();
    request.on("end", () => {
      const status = Number(/^\/status\/(\d+)/.exec(request.url)?.[1] ?? 200);
      const size = Number(/^\/bytes\/(\d+)/.exec(request.url)?.[1] ?? 0);
      const headers = { "content-type": "application/json", "set-cookie": "session=hidden-text" };
      setTimeout(
        () => response.writeHead(status, headers).end(size > 0 ? Buffer.alloc(size, "x") : '{"ok":true,"token":"hidden-text"}'),
        request.url.startsWith("/slow") ? 700 : 0,
      );
    });
  });
  server.listen(0, "127.0.0.1", () => print(server.address().port));
} else {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  createInterface({ input: process.stdin }).on("line", (line) => {
    const { body, ...options } = JSON.parse(line);
    const request = http.request({ host: "127.0.0.1", port, agent, ...options }, (response) => {
      response.resume().on("end", () => print("done"));
    });
    request.end(body);
  });
  print("ready");
}
