/**
 * An HTTP/1 server and a client that sends raw bytes, for tests. `server` prints its port. `client <host> <port>` reads lines of JSON
 * `{ "sends": [text, …], "answers": n }`: each line is a connection (or continues the last one if that had `keep`), each text a separate write.
 * It prints a line after n final responses or when the connection has ended. With `half` it shuts down its sending side and reads late.
 */

import * as http from "node:http";
import * as net from "node:net";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

const [what, host, port] = process.argv.slice(2);
const print = (text) => process.stdout.write(`${text}\n`);

function serve() {
  const server = http.createServer((request, response) => {
    if (request.url.startsWith("/never")) return;
    request.resume();
    request.on("end", () => void answer(request, response));
  });
  server.on("upgrade", (_request, socket) => {
    socket.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
    socket.on("data", (bytes) => socket.write(bytes));
    socket.on("error", () => {});
  });
  server.keepAliveTimeout = 60_000;
  server.listen(0, "::", () => print(server.address().port));
}

async function answer(request, response) {
  const status = Number(/^\/status\/(\d+)/.exec(request.url)?.[1] ?? 200);
  if (request.url.startsWith("/hints")) {
    // Hints and response are one segment, so a reader gets both at once.
    request.socket.cork();
    for (let hint = 0; hint < 2; hint++) response.writeEarlyHints({ link: "</style.css>; rel=preload" });
    process.nextTick(() => request.socket.uncork());
  }
  response.writeHead(status);
  if (request.url.startsWith("/chunks")) {
    for (let chunk = 0; chunk < 3; chunk++) {
      response.write("x".repeat(100));
      await sleep(30);
    }
  }
  response.end("done");
}

const finalAnswer = /HTTP\/1\.[01] (?!10[03])\d{3}/g;

/** Reads only after the response and the server's FIN have arrived. */
async function halfClosed(socket, { sends }) {
  socket.end(Buffer.from(sends.join(""), "latin1"));
  await sleep(100);
  socket.resume();
  await new Promise((resolve) => socket.once("close", resolve));
}

async function exchange(socket, { sends, answers }) {
  let text = "";
  const over = new Promise((resolve) => {
    const onData = (bytes) => {
      text += bytes.toString("latin1");
      if ((text.match(finalAnswer)?.length ?? 0) >= answers && (!/chunked/i.test(text) || text.endsWith("0\r\n\r\n"))) {
        socket.off("data", onData);
        socket.off("close", resolve);
        resolve();
      }
    };
    socket.on("data", onData);
    socket.once("close", resolve);
  });
  for (const [index, part] of sends.entries()) {
    // Separate segments: the server reads what has arrived so far.
    if (index > 0) await sleep(15);
    socket.write(Buffer.from(part, "latin1"));
  }
  if (answers > 0) await over;
  else await sleep(50);
}

if (what === "server") serve();
else {
  let socket;
  for await (const line of createInterface({ input: process.stdin })) {
    const step = JSON.parse(line);
    if (socket === undefined) {
      socket = net.connect(Number(port), host);
      socket.setNoDelay(true);
      if (step.half) socket.pause();
      socket.on("error", () => {});
      await new Promise((resolve) => socket.once("connect", resolve));
    }
    if (step.half) await halfClosed(socket, step);
    else if (step.sends.length > 0) await exchange(socket, step);
    if (!step.keep) {
      socket.destroy();
      socket = undefined;
    }
    print("ok");
  }
}
