// Serves MongoDB (OP_MSG) or Kafka (Produce 8, Metadata 5, Heartbeat 3) on a port that it prints. Usage: node wire-server.mjs mongodb|kafka
import { createServer } from "node:net";

const kind = process.argv[2];

function int32(value, isBig) {
  const bytes = Buffer.alloc(4);
  if (isBig) bytes.writeInt32BE(value);
  else bytes.writeInt32LE(value);
  return bytes;
}

/** `{ ok: 1 }`, or `{ ok: 0, code: 26 }` if the request contains `missing`. */
function mongoAnswer(frame) {
  const isMissing = frame.includes("missing");
  const ok = Buffer.alloc(12);
  ok.write("\x01ok\0", 0, "latin1");
  ok.writeDoubleLE(isMissing ? 0 : 1, 4);
  const code = isMissing ? Buffer.concat([Buffer.from("\x10code\0", "latin1"), int32(26)]) : Buffer.alloc(0);
  const document = Buffer.concat([int32(4 + ok.length + code.length + 1), ok, code, Buffer.from([0])]);
  const body = Buffer.concat([int32(0), Buffer.from([0]), document]);
  return Buffer.concat([int32(16 + body.length), int32(1000), int32(frame.readInt32LE(4)), int32(2013), body]);
}

/** No error, or 3 (unknown topic) if the request contains `missing`; heartbeats get 27 (rebalance in progress). */
function kafkaAnswer(frame) {
  const api = frame.readInt16BE(4);
  const id = int32(frame.readInt32BE(8), true);
  const code = (value) => Buffer.from([0, value]);
  const topic = Buffer.from("\0\x01t", "latin1");
  let body = int32(0, true);
  if (api === 0)
    body = Buffer.concat([
      int32(1, true),
      topic,
      int32(1, true),
      int32(0, true),
      code(frame.includes("missing") ? 3 : 0),
      Buffer.alloc(20),
    ]);
  if (api === 12) body = Buffer.concat([int32(0, true), code(27)]);
  return Buffer.concat([int32(4 + body.length, true), id, body]);
}

const server = createServer((socket) => {
  let received = Buffer.alloc(0);
  socket.on("data", (bytes) => {
    received = Buffer.concat([received, bytes]);
    const answers = [];
    while (received.length >= 4) {
      const length = kind === "mongodb" ? received.readInt32LE(0) : received.readInt32BE(0) + 4;
      if (received.length < length) break;
      const frame = received.subarray(0, length);
      answers.push(kind === "mongodb" ? mongoAnswer(frame) : kafkaAnswer(frame));
      received = received.subarray(length);
    }
    if (answers.length > 0) socket.write(Buffer.concat(answers));
  });
  socket.on("error", () => {});
});
server.listen(0, "127.0.0.1", () => process.stdout.write(`${server.address().port}\n`));
process.stdin.resume().on("end", () => process.exit());
