// Steady, bounded load on the entry: each route at its own rate, independent of pending requests. Prints counts each second.

import { Agent, request } from "node:http";

const port = Number(process.env.PORT);
const rates = JSON.parse(process.env.RATES ?? "{}");
/** Limit of concurrent requests; further ones are not sent, as real clients give up. */
const openMax = 100;
const agent = new Agent({ keepAlive: true, maxSockets: openMax });
let open = 0;
let factor = 1;
let seen = {};

function send(route) {
  if (open >= openMax) return;
  open++;
  const [method, path] = route.split(" ");
  const startMs = performance.now();
  const done = (isError) => {
    open--;
    const counts = (seen[route] ??= { requests: 0, errors: 0, ms: 0 });
    counts.requests++;
    counts.errors += isError ? 1 : 0;
    counts.ms += performance.now() - startMs;
  };
  const outgoing = request({
    host: "127.0.0.1",
    port,
    method,
    path: path.replace(":id", () => String(Math.floor(Math.random() * 500))),
    agent,
  });
  outgoing.setTimeout(5_000, () => outgoing.destroy(new Error("timed out")));
  outgoing.once("error", () => done(true));
  outgoing.once("response", (response) => response.resume().once("close", () => done(response.statusCode >= 500)));
  outgoing.end();
}

for (const [route, perSecond] of Object.entries(rates)) {
  let owed = Math.random();
  setInterval(() => {
    for (owed += 0.05 * perSecond * factor * (0.5 + Math.random()); owed >= 1; owed--) send(route);
  }, 50);
}

setInterval(() => {
  process.stdout.write(`${JSON.stringify({ atMs: Date.now(), routes: seen })}\n`);
  seen = {};
}, 1_000);
process.stdin.setEncoding("utf8").on("data", (text) => (factor = Number(text)));
process.stdin.once("end", () => process.exit(0));
