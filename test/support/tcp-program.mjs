/**
 * A service for tests: `node <name>.mjs [listen <address> <port>]… [call <address> <port>]… [forward <port> <address:port>]…`. Listeners reply to
 * every line; calls keep one connection open, send a line twice a second and reconnect after a failure; forward is a load balancer.
 */

import { connect, createServer } from "node:net";

const args = process.argv.slice(2);
for (let index = 0; index < args.length; index += 3) {
  const [what, address, port] = args.slice(index, index + 3);
  if (what === "listen") listen(address, Number(port));
  else if (what === "forward") forward(Number(address), port);
  else call(address, Number(port));
}

function listen(address, port) {
  createServer((socket) => {
    socket.on("error", () => undefined).on("data", () => socket.write("yes\n"));
  }).listen(port, address, () => process.stdout.write(`listening on ${address}:${port}\n`));
}

function forward(port, target) {
  const [host, targetPort] = target.split(":");
  createServer((socket) => {
    const onward = connect(Number(targetPort), host);
    socket.on("error", () => onward.destroy()).pipe(onward);
    onward.on("error", () => socket.destroy()).pipe(socket);
  }).listen(port);
}

function call(address, port) {
  const socket = connect(port, address);
  const timer = setInterval(() => socket.write("there?\n"), 500);
  socket.once("data", () => process.stdout.write(`connected to ${address}:${port}\n`));
  socket.on("data", () => undefined);
  socket.on("error", () => undefined);
  socket.once("close", () => {
    clearInterval(timer);
    setTimeout(call, 300, address, port);
  });
}
