// A relay of bytes between a service and what lies outside. A fault makes it slow: each piece is held for a while, in order.

import { readFileSync } from "node:fs";
import { connect, createServer } from "node:net";

const ports = JSON.parse(process.env.PORTS ?? "{}");
let holdMs = 0;
setInterval(() => {
  try {
    holdMs = JSON.parse(readFileSync(process.env.BEHAVIOUR, "utf8")).holdMs ?? 0;
  } catch {
    // Being replaced right now: the next reading finds it.
  }
}, 200);

function relay(from, to) {
  from.on("data", (piece) => (holdMs > 0 ? setTimeout(() => to.write(piece), holdMs) : to.write(piece)));
  from.on("end", () => setTimeout(() => to.end(), holdMs));
  from.on("error", () => to.destroy());
  from.on("close", () => setTimeout(() => to.destroy(), holdMs + 100));
}

createServer((client) => {
  const server = connect({ port: ports.provider, host: "127.0.0.1", noDelay: true });
  client.setNoDelay(true);
  relay(client, server);
  relay(server, client);
}).listen(Number(process.env.PORT), "127.0.0.1");
