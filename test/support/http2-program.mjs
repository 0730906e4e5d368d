/**
 * HTTP/2 and gRPC servers and clients for tests. `node http2-program.mjs server|upgrade-server|grpc-server [tls <key> <cert>]` prints its port;
 * `node http2-program.mjs client|grpc-client <port> [tls|upgrade]` runs each line of its input, `<path> <count> <parallel> [<body bytes>]`, on one connection and
 * prints a line when all have responses. `splitter <port>` forwards bytes to that port in small pieces, several of them in one call. A client with `hold` connects and sends one request at its start.
 */

import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import * as http2 from "node:http2";
import { connect, createServer as createTcpServer } from "node:net";
import { createInterface } from "node:readline";

const [what, ...rest] = process.argv.slice(2);
const print = (text) => process.stdout.write(`${text}\n`);
if (what === "server") serveHttp2();
else if (what === "grpc-server") await serveGrpc();
else if (what === "upgrade-server") serveUpgrade();
else if (what === "splitter") split(Number(rest[0]));
else if (what === "client") await askHttp2(Number(rest[0]), rest[1]);
else await askGrpc(Number(rest[0]));

function serveHttp2() {
  const tls = rest[0] === "tls" ? { key: readFileSync(rest[1]), cert: readFileSync(rest[2]) } : undefined;
  const server = tls ? http2.createSecureServer(tls) : http2.createServer();
  server.on("sessionError", () => undefined);
  server.on("stream", answerStream);
  server.listen(0, "127.0.0.1", () => print(server.address().port));
}

/** Upgrades each connection from HTTP/1 to HTTP/2. */
function serveUpgrade() {
  const server = createServer((_request, response) => response.end());
  server.on("upgrade", (_request, socket) => {
    socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n");
    http2
      .performServerHandshake(socket)
      .on("stream", answerStream)
      .on("error", () => undefined);
  });
  server.listen(0, "127.0.0.1", () => print(server.address().port));
}

/** Seeded, so that every run splits at the same places. */
function split(port) {
  let seed = 1;
  const below = (limit) => {
    seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff;
    return (seed >> 8) % limit;
  };
  const pass = (from, to) => {
    let last = Promise.resolve();
    from.on("error", () => to.destroy()).on("close", () => to.destroy());
    from.on("data", (bytes) => {
      last = last.then(async () => {
        for (let at = 0; at < bytes.length; ) {
          const size = 1 + below(below(4) === 0 ? 3000 : 20);
          to.write(bytes.subarray(at, at + size));
          at += size;
          if (below(3) === 0) await new Promise(setImmediate);
        }
      });
    });
  };
  const server = createTcpServer((client) => {
    const onward = connect(port, "127.0.0.1");
    for (const socket of [client, onward]) socket.setNoDelay(true);
    pass(client, onward);
    pass(onward, client);
  });
  server.listen(0, "127.0.0.1", () => print(server.address().port));
}

function answerStream(stream, headers) {
  stream.on("error", () => undefined);
  const path = String(headers[":path"]);
  const status = Number(/^\/status\/(\d+)/.exec(path)?.[1] ?? 200);
  const answer = () => {
    if (path.startsWith("/reset")) return stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR);
    stream.respond({ ":status": status, "content-type": "text/plain", "x-request": path });
    if (path.startsWith("/broken")) return stream.write(Buffer.alloc(1_000_000), () => stream.destroy(new Error("broken")));
    // The client may close as soon as it has everything.
    if (path.startsWith("/endless")) return stream.write(Buffer.alloc(1_000_000));
    return stream.end(path.startsWith("/big") ? Buffer.alloc(200_000) : "hello");
  };
  stream.resume();
  if (path.startsWith("/slow")) stream.on("end", () => setTimeout(answer, 50));
  else stream.on("end", answer);
}

/** Upgrades from HTTP/1 to HTTP/2. */
async function upgrade(port) {
  const socket = connect(port, "127.0.0.1");
  socket.write("GET /first HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n");
  const seen = await new Promise((resolve) => socket.once("readable", () => resolve(socket.read())));
  const end = seen.indexOf("\r\n\r\n") + 4;
  if (end < seen.length) socket.unshift(seen.subarray(end));
  return socket;
}

async function askHttp2(port, how) {
  const socket = how === "upgrade" ? await upgrade(port) : undefined;
  const session = http2.connect(`${how === "tls" ? "https" : "http"}://localhost:${port}`, {
    rejectUnauthorized: false,
    ...(socket ? { createConnection: () => socket } : {}),
  });
  session.on("error", () => undefined);
  const ask = (path, bodyBytes) =>
    new Promise((resolve) => {
      const headers = { ":path": path, ":method": bodyBytes ? "POST" : "GET", "x-token": "hidden-text" };
      // Longer than a TLS record and than a frame.
      if (path.startsWith("/heavy")) headers["x-heavy"] = path.repeat(600);
      if (path.startsWith("/heavier"))
        for (let index = 0; index < 4; index++) headers[`x-heavier-${index}`] = `${index}${path}`.repeat(500);
      const stream = session.request(headers);
      stream
        .on("error", () => undefined)
        .on("close", resolve)
        .resume();
      let got = 0;
      if (path.startsWith("/endless"))
        stream.on("data", ({ length }) => {
          got += length;
          if (got === 1_000_000) stream.close(http2.constants.NGHTTP2_CANCEL);
        });
      stream.end(bodyBytes ? Buffer.alloc(bodyBytes, 97) : undefined);
    });
  runLines(ask);
}

async function serveGrpc() {
  const grpc = await import("@grpc/grpc-js");
  const pass = (value) => value;
  const method = (name, requestStream, responseStream) => ({
    path: `/shop.v1.Cart/${name}`,
    requestStream,
    responseStream,
    requestSerialize: pass,
    requestDeserialize: pass,
    responseSerialize: pass,
    responseDeserialize: pass,
  });
  const server = new grpc.Server();
  server.addService(
    { buy: method("Buy", false, false), fail: method("Fail", false, false), list: method("List", false, true) },
    {
      buy: (call, done) => done(null, call.request),
      fail: (_call, done) => done({ code: grpc.status.INTERNAL, details: "broken" }),
      list: (call) => {
        for (let index = 0; index < 20; index++) call.write(Buffer.alloc(100));
        call.end();
      },
    },
  );
  server.bindAsync("127.0.0.1:0", grpc.ServerCredentials.createInsecure(), (_error, port) => print(port));
}

async function askGrpc(port) {
  const grpc = await import("@grpc/grpc-js");
  const client = new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createInsecure());
  const pass = (value) => value;
  const ask = (path) =>
    new Promise((resolve) => {
      if (path.endsWith("/List")) {
        const call = client.makeServerStreamRequest(path, pass, pass, Buffer.alloc(10));
        call
          .on("data", () => undefined)
          .on("error", () => undefined)
          .on("status", resolve);
      } else client.makeUnaryRequest(path, pass, pass, Buffer.alloc(10), () => resolve());
    });
  runLines(ask);
}

function runLines(ask) {
  createInterface({ input: process.stdin }).on("line", (line) => void runLine(line, ask));
  print("ready");
}

async function runLine(line, ask) {
  const [path, count, parallel, bodyBytes] = line.split(" ");
  let left = Number(count);
  const worker = async () => {
    while (left-- > 0) await ask(path.replace("#", String(left)), Number(bodyBytes ?? 0));
  };
  await Promise.all(Array.from({ length: Number(parallel) }, worker));
  print("done");
}
