// A TCP relay between a service and an external dependency. A fault slows it down: each piece is delayed, in order.

import { readFileSync } from "node:fs";
import { connect, createServer } from "node:net";

const ports = JSON.parse(process.env.PORTS ?? "{}");
let holdMs = 0;
setInterval(() => {
  try {
    holdMs = JSON.parse(readFileSync(process.env.BEHAVIOUR, "utf8")).holdMs ?? 0;
  } catch {
    // The file is being replaced: the next read finds it.
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
