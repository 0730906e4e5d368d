// A name server that knows one address for every name. A fault makes it slow.

import { createSocket } from "node:dgram";
import { readFileSync } from "node:fs";

let holdMs = 0;
setInterval(() => {
  try {
    holdMs = JSON.parse(readFileSync(process.env.BEHAVIOUR, "utf8")).holdMs ?? 0;
  } catch {
    // Being replaced right now: the next reading finds it.
  }
}, 200);

/** The question again, and one A record that refers to its name: class IN, 0 s to live, 127.0.0.1. */
function answerTo(query) {
  let end = 12;
  while (query[end] > 0) end += query[end] + 1;
  const question = query.subarray(12, end + 5);
  const head = Buffer.from([query[0], query[1], 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
  return Buffer.concat([head, question, Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1])]);
}

const socket = createSocket("udp4", (query, { port, address }) => setTimeout(() => socket.send(answerTo(query), port, address), holdMs));
socket.bind(Number(process.env.PORT), "127.0.0.1");
