// twin-threads.mjs <rounds>: a server, and two threads that request the same new path at the same moment, in rounds. Prints the port first, starts
// after a line on stdin, and prints "done" at the end.
import { once } from "node:events";
import { createConnection, createServer } from "node:net";
import { fileURLToPath } from "node:url";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";

const threads = 2;

/** Letters only, so that no part looks like an id. */
const nameOf = (round) =>
  `/${[...round.toString(26)].map((digit) => "abcdefghijklmnopqrstuvwxyz"[Number.parseInt(digit, 26)]).join("")}page`;

async function ask({ port, rounds, arrived }) {
  const socket = createConnection(port, "127.0.0.1").setNoDelay(true);
  await once(socket, "connect");
  for (let round = 1; round <= rounds; round++) {
    const head = Buffer.from(`GET ${nameOf(round)} HTTP/1.1\r\nHost: twins.test\r\n\r\n`);
    const answer = once(socket, "data");
    Atomics.add(arrived, 0, 1);
    // Busy-wait, so that both threads continue at the same moment.
    while (Atomics.load(arrived, 0) < round * threads);
    socket.write(head);
    await answer;
  }
  socket.destroy();
}

async function serve(rounds) {
  const server = createServer((socket) => {
    socket.setNoDelay(true).on("data", () => socket.write("HTTP/1.1 204 No Content\r\n\r\n"));
    socket.on("error", () => socket.destroy());
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  process.stdout.write(`${port}\n`);
  await once(process.stdin, "data");
  const arrived = new Int32Array(new SharedArrayBuffer(4));
  const workers = Array.from(
    { length: threads },
    () => new Worker(fileURLToPath(import.meta.url), { workerData: { port, rounds, arrived } }),
  );
  await Promise.all(workers.map((worker) => once(worker, "message")));
  process.stdout.write("done\n");
  process.exit(0);
}

if (isMainThread) await serve(Number(process.argv[2]));
else {
  await ask(workerData);
  parentPort.postMessage("done");
}
