/** A Redis server under load: a client gets and sets random keys on several connections, without pipelining, until stopped. */

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { until } from "./coral-process.ts";
import { freePort } from "./web-servers.ts";

/** Null when Redis is not installed. */
export async function startRedisLoad(connections: number): Promise<AsyncDisposable | null> {
  if (spawnSync("redis-server", ["--version"]).status !== 0 || spawnSync("redis-benchmark", ["--version"]).status !== 0) return null;
  const port = String(await freePort());
  const server = spawn("redis-server", ["--port", port, "--bind", "127.0.0.1", "--save", ""], { stdio: "ignore" });
  await until("Redis answers", 10_000, () => {
    const { stdout } = spawnSync("redis-cli", ["-p", port, "ping"]);
    if (String(stdout) !== "PONG\n") throw new Error(`Redis replied ${JSON.stringify(String(stdout))}`);
  });
  const options = ["-p", port, "-c", String(connections), "-r", "100000", "-l", "-q"];
  const client = spawn("redis-benchmark", [...options, "-t", "set,get"], { stdio: "ignore" });
  return {
    [Symbol.asyncDispose]: async () => {
      await end(client);
      await end(server);
    },
  };
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGKILL");
  await once(child, "exit");
}
