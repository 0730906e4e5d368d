/**
 * Latency and throughput of commands: `true` on a real agent through a real colony, against a plain spawn; the whole
 * CLI command; output throughput; five hundred agents at once; the echo of a key in a terminal.
 */

import { spawn, spawnSync } from "node:child_process";
import { once, setMaxListeners } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { BoundedChannel } from "../src/base/bounded-channel.ts";
import { agentPaths, colonyPaths } from "../src/config/index.ts";
import type { ResolvedTargets } from "../src/tools/index.ts";
import {
  type CommandEvents,
  type CommandOrderInit,
  type ControlTarget,
  openCommand,
  parseToken,
  requestJson,
  type Token,
} from "../src/transport/index.ts";
import { CoralHome, coralFile, until } from "./lib/coral-process.ts";
import { figureOf, isSmall, report, single } from "./lib/report.ts";
import { SimulatedAgent, trueAtOnce } from "./lib/simulated-agent.ts";
import { percentileOf, ratioOf } from "./lib/spread.ts";
import { role, serveParent, Worker } from "./lib/worker.ts";

const rounds = isSmall ? 20 : 150;
/** Pause before each measurement, so that it does not overlap the daemons' clean-up after the previous one. */
const pauseMs = 50;
const cliRounds = isSmall ? 5 : 20;
/** Output of one command, to measure throughput. */
const streamBytes = (isSmall ? 64 : 512) * 1024 ** 2;
const streams = isSmall ? 1 : 3;
const agentCount = Number(process.env["CORAL_BENCH_AGENTS"] ?? (isSmall ? 50 : 500));
const keys = isSmall ? 50 : 300;
/** Agents that connect concurrently while the fleet is set up. */
const connectsAtOnce = 16;

type Order = { kind: "connect"; token: Token };

if (role === "agents") await simulate();
else await measure();

/** Runs the simulated agents, in a child process. */
async function simulate(): Promise<void> {
  const stopped = new AbortController();
  setMaxListeners(0, stopped.signal);
  await serveParent<Order>(async ({ token }) => {
    const waiting = Array.from({ length: agentCount }, (_, number) => new SimulatedAgent(number));
    const connectNext = async (): Promise<void> => {
      for (let agent = waiting.pop(); agent; agent = waiting.pop()) await agent.connect(token, stopped.signal, trueAtOnce);
    };
    await Promise.all(Array.from({ length: connectsAtOnce }, connectNext));
    return undefined;
  });
}

interface Door {
  target: ControlTarget;
  targets: { agents?: string[]; labels?: Record<string, string> };
}

const ignored: CommandEvents = { routed: () => undefined, event: () => undefined, output: () => undefined };

/** Runs to completion; throws if a target did not exit with 0. Returns the bytes of its output. */
async function run(target: ControlTarget, order: CommandOrderInit): Promise<number> {
  let sizeBytes = 0;
  const command = await openCommand({ target });
  command.endInput();
  const outcome = await command.run(order, {
    ...ignored,
    output: (_target, _stream, data) => {
      sizeBytes += data.length;
    },
  });
  const bad = outcome.ends.find((end) => end?.reason !== "exited" || end.exitCode !== 0);
  if (bad) throw new Error(`Command failed: ${bad.reason} ${bad.exitCode} ${bad.problem}`);
  if (outcome.kind === "lost" || outcome.ends.includes(undefined)) throw new Error("The connection was lost");
  return sizeBytes;
}

async function timeMs(what: () => Promise<unknown>): Promise<number> {
  const startMs = performance.now();
  await what();
  return performance.now() - startMs;
}

/** A plain spawn without a terminal. */
async function bareTrue(): Promise<void> {
  await once(spawn("sh", ["-c", "true"], { stdio: "ignore" }), "exit");
}

async function runTrue({ target, targets }: Door): Promise<void> {
  await run(target, { kind: "exec", targets, argv: ["true"] });
}

/** Interleaved, so that noise affects all equally. */
async function measureTrue(door: Door, localDoor: Omit<Door, "targets">) {
  const times = { bare: [] as number[], trip: [] as number[], agentTrip: [] as number[], exec: [] as number[], local: [] as number[] };
  const { target, targets } = door;
  const trip = (): Promise<unknown> => requestJson({ target, method: "GET", path: "/healthz" });
  const body = { agent: targets.agents?.[0] };
  const agentTrip = (): Promise<unknown> => requestJson({ target, method: "POST", path: "/v1/tools/coral_get_runtime_context", body });
  const local = (): Promise<unknown> => run(localDoor.target, { kind: "exec", argv: ["true"] });
  const whats = { bare: bareTrue, trip, agentTrip, exec: () => runTrue(door), local } as const;
  for (let round = -5; round < rounds; round++) {
    for (const name of ["bare", "trip", "agentTrip", "exec", "local"] as const) {
      await sleep(pauseMs);
      const tookMs = await timeMs(whats[name]);
      if (round >= 0) times[name].push(tookMs);
    }
  }
  return times;
}

/** Back to back: faster than clean-up after a command and the preparation of the next. */
async function measureRow(door: Door): Promise<number[]> {
  const times: number[] = [];
  for (let round = 0; round < rounds; round++) times.push(await timeMs(() => runTrue(door)));
  return times;
}

function measureCli(home: CoralHome, agentId: string) {
  const run = (args: string[]): number => {
    const startMs = performance.now();
    const { status, stderr } = spawnSync(coralFile, args, { env: home.env, stdio: ["ignore", "ignore", "pipe"] });
    if (status !== 0) throw new Error(`coral ${args.join(" ")} exited with ${status}: ${stderr.toString()}`);
    return performance.now() - startMs;
  };
  const version: number[] = [];
  const exec: number[] = [];
  for (let round = 0; round < cliRounds; round++) {
    version.push(run(["version"]));
    exec.push(run(["exec", "--agent", agentId, "true"]));
  }
  return { version, exec };
}

async function measureStream(door: Door): Promise<number[]> {
  const rates: number[] = [];
  for (let round = 0; round < streams; round++) {
    const argv = ["head", "-c", String(streamBytes), "/dev/zero"];
    const startMs = performance.now();
    const got = await run(door.target, { kind: "exec", targets: door.targets, argv, maxOutputBytes: BigInt(streamBytes * 2) });
    if (got !== streamBytes) throw new Error(`${got} of ${streamBytes} bytes arrived`);
    rates.push(got / 1e6 / ((performance.now() - startMs) / 1_000));
  }
  return rates;
}

/** From the key press to its echo, with `cat` in a remote terminal. */
async function measureKeys({ target, targets }: Door): Promise<number[]> {
  const command = await openCommand({ target });
  const seen = new BoundedChannel<"started" | "echo">(keys + 1);
  const terminal = { columns: 80, rows: 24, type: "xterm" };
  const running = command.run(
    { kind: "shell", targets, argv: ["cat"], terminal },
    {
      ...ignored,
      event: (_target, { case: kind }) => {
        if (kind === "started") seen.offer(kind);
      },
      output: () => void seen.offer("echo"),
    },
  );
  const next = async (): Promise<void> => {
    const { done } = await Promise.race([events.next(), running.then(() => ({ done: true }))]);
    if (done) throw new Error("The terminal has ended");
  };
  const events = seen[Symbol.asyncIterator]();
  await next();
  const times: number[] = [];
  for (let key = 0; key < keys; key++) {
    times.push(
      await timeMs(async () => {
        await command.write(Buffer.from("x"));
        await next();
      }),
    );
  }
  command.hangUp();
  await running;
  return times;
}

async function measureMany(home: CoralHome, target: ControlTarget): Promise<number> {
  const created = JSON.parse(home.run("colony", "token", "create", "--uses", String(agentCount), "-o", "json")) as { token: string };
  await using simulator = new Worker("agents");
  await simulator.ask({ kind: "connect", token: parseToken(created.token, "join") } satisfies Order);
  const targets = { labels: { zone: "bench" } };
  await until("all agents are connected", 60_000, async () => {
    const body = { command: "exec", ...targets };
    const { usable } = (await requestJson({ target, method: "POST", path: "/v1/tools/coral_resolve_targets", body })) as ResolvedTargets;
    if (usable !== agentCount) throw new Error(`${usable} of ${agentCount}`);
  });
  return await timeMs(() => run(target, { kind: "exec", targets, argv: ["true"] }));
}

async function measure(): Promise<void> {
  using home = new CoralHome();
  home.run("init", "bench");
  mkdirSync(join(home.path, "agent"), { recursive: true });
  // The benchmark may run as root; the agent's own user works either way.
  const user = process.getuid?.() === 0 ? "\n  run_as: root" : "";
  writeFileSync(agentPaths(home.path).configFile, `listen: 127.0.0.1:0\nexec:\n  profile: full\n  max_output: 8GiB${user}\n`);
  await using _colony = await home.start(["colony", "start", "--port", "0"], () => home.run("colony", "status"));
  await using _agent = await home.start(["agent", "start"], () => home.run("agent", "status"));
  const { colonyId } = (JSON.parse(home.run("status", "-o", "json")) as { colony: { colonyId: string } }).colony;
  const target: ControlTarget = { kind: "unix", path: colonyPaths(home.path, colonyId).socketFile };
  let agentId = "";
  await until("the agent is connected", 30_000, () => {
    const { agents } = JSON.parse(home.run("agent", "list", "-o", "json")) as { agents: { agentId: string; connected: boolean }[] };
    const [agent] = agents.filter(({ connected }) => connected);
    if (!agent) throw new Error("not yet");
    ({ agentId } = agent);
  });
  const door: Door = { target, targets: { agents: [agentId] } };
  await until("the agent accepts commands", 30_000, () => runTrue(door));
  const times = await measureTrue(door, { target: { kind: "unix", path: agentPaths(home.path).socketFile } });
  const row = await measureRow(door);
  const cli = measureCli(home, agentId);
  const echo = await measureKeys(door);
  const rates = await measureStream(door);
  const manyMs = await measureMany(home, target);
  const beyondTrip = times.exec.map((execMs, round) => execMs - (times.trip[round] ?? 0));
  report({
    name: "exec",
    sizes: { rounds, cliRounds, streamBytes, streams, agents: agentCount, keys },
    figures: [
      figureOf("exec true through the colony, less one round trip, to sh -c true", "×", ratioOf(beyondTrip, times.bare), {
        kind: "at-most",
        value: 3,
      }),
      figureOf("output through the colony", "MB/s", rates, { kind: "at-least", value: 50 }),
      figureOf(`exec true at ${agentCount} simulated agents`, "s", single(manyMs / 1_000), { kind: "below", value: 5 }),
      figureOf(
        "echo of a key, median",
        "ms",
        single(
          percentileOf(
            [...echo].sort((a, b) => a - b),
            0.5,
          ),
        ),
        { kind: "below", value: 20 },
      ),
      figureOf(
        "echo of a key, p99",
        "ms",
        single(
          percentileOf(
            [...echo].sort((a, b) => a - b),
            0.99,
          ),
        ),
      ),
      figureOf("sh -c true, bare", "ms", times.bare),
      figureOf("one round trip to the colony", "ms", times.trip),
      figureOf("one round trip to the agent through the colony", "ms", times.agentTrip),
      figureOf("exec true through the colony", "ms", times.exec),
      figureOf("exec true through the colony, without a pause in between", "ms", row),
      figureOf("exec true at the agent's own socket", "ms", times.local),
      figureOf("coral exec true, whole command", "ms", cli.exec),
      figureOf("coral version, whole command", "ms", cli.version),
      figureOf("coral exec true to coral version", "×", ratioOf(cli.exec, cli.version)),
    ],
    notes: ["Output is counted at the client's end of the colony's socket; colony, agent and client run on one machine."],
  });
}
