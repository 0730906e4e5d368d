// Shared by the Node programs of the live world: a small HTTP server, calls to other programs, and the behaviour that faults change.

import { readFileSync } from "node:fs";
import { Agent, createServer, request } from "node:http";
import { childHeaders, inSpan } from "./spans.mjs";

/** Set by the world: ports of the other programs by role. */
export const ports = JSON.parse(process.env.PORTS ?? "{}");
const behaviourFile = process.env.BEHAVIOUR ?? "";
let behaviour = {};
let heldBytes = [];

/** Faults write this file, with the changed behaviour by route. */
function readBehaviour() {
  try {
    behaviour = JSON.parse(readFileSync(behaviourFile, "utf8"));
  } catch {
    // The file is being replaced: the next read finds it.
  }
  if (behaviour.exitAfterMs && process.uptime() * 1_000 > behaviour.exitAfterMs) process.exit(1);
  if (behaviour.blockMs) burn(behaviour.blockMs);
  if (behaviour.leakBytes) heldBytes.push(Buffer.alloc(behaviour.leakBytes, 1));
  else heldBytes = [];
}
setInterval(readBehaviour, 200);
readBehaviour();

/** So much CPU time: on a busy machine it takes longer. */
function burn(ms) {
  const start = process.cpuUsage();
  for (;;) {
    const { user, system } = process.cpuUsage(start);
    if (user + system >= ms * 1_000) return;
  }
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export class Failure extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Applies a fault's behaviour to this route. Throws the route's error response. */
async function misbehave(route) {
  const { errorRatio = 0, part = 1, delayMs = 0, burnMs = 0 } = behaviour.routes?.[route] ?? {};
  if (Math.random() < part) {
    if (delayMs > 0) await sleep(delayMs * (0.8 + 0.4 * Math.random()));
    if (burnMs > 0) burn(burnMs);
  }
  if (Math.random() < errorRatio) throw new Failure(500, "internal error");
}

/** Routes are `GET /items/:id`; handlers get the path's parts and return the JSON response. */
export function serve(routes) {
  const table = Object.entries(routes).map(([route, handle]) => {
    const [method, path] = route.split(" ");
    return { route, method, pattern: new RegExp(`^${path.replace(/:\w+/g, "([^/]+)")}$`), handle };
  });
  const respond = async (incoming, response) => {
    const path = (incoming.url ?? "/").split("?")[0];
    const found = table.find(({ method, pattern }) => method === incoming.method && pattern.test(path));
    let [status, body] = [200, {}];
    try {
      if (!found) throw new Failure(404, "not found");
      for await (const _ of incoming);
      body = await inSpan("server", found.route, incoming.headers.traceparent, async () => {
        await misbehave(found.route);
        return found.handle(...found.pattern.exec(path).slice(1));
      });
    } catch (error) {
      status = error.status ?? 500;
      body = { error: String(error.message) };
    }
    const text = JSON.stringify(body);
    response.writeHead(status, { "content-type": "application/json", "content-length": Buffer.byteLength(text) }).end(text);
  };
  createServer({ keepAliveTimeout: 60_000 }, (incoming, response) => void respond(incoming, response)).listen(
    Number(process.env.PORT),
    "127.0.0.1",
  );
}

const agent = new Agent({ keepAlive: true, maxSockets: 64 });

/** Calls another program, and passes its failure on, like a gateway. */
export function call(role, method, path, { timeoutMs = 2_000 } = {}) {
  return inSpan("client", method, undefined, () => send(role, method, path, timeoutMs));
}

function send(role, method, path, timeoutMs) {
  return new Promise((resolve, reject) => {
    const outgoing = request(
      { host: "127.0.0.1", port: ports[role], method, path, agent, timeout: timeoutMs, headers: childHeaders() },
      (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (part) => (text += part));
        response.once("end", () => {
          if (response.statusCode >= 500) reject(new Failure(502, `upstream responded ${response.statusCode}`));
          else if (response.statusCode >= 400) reject(new Failure(response.statusCode, text));
          else resolve(JSON.parse(text));
        });
        response.once("error", (error) => reject(new Failure(502, error.message)));
      },
    );
    outgoing.once("timeout", () => outgoing.destroy(new Failure(504, "upstream timed out")));
    outgoing.once("error", (error) => reject(error instanceof Failure ? error : new Failure(502, error.message)));
    outgoing.end();
  });
}
