/**
 * Latency for a person or an assistant: tools over HTTP, and commands, of a running colony with ten million spans of a thousand services in two
 * hours, all of them also observed by kernel hooks. One client alone; then eight with mixed queries while spans arrive. A tenth of the size with
 * CORAL_BENCH_SMALL=1. CPU time is that of the colony's process: it is more meaningful than elapsed time where other work fills the machine.
 * CORAL_BENCH_KEEP=<directory> keeps the filled store for the next run, CORAL_BENCH_PARTS chooses of alone, commands, together (none: fill only),
 * CORAL_BENCH_ONLY queries by parts of their names, CORAL_BENCH_ROUNDS how often each is sent, CORAL_BENCH_ANSWERS=<directory> writes each answer
 * to a file, to compare two builds.
 */

import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { join } from "node:path";
import { type Clock } from "../src/base/clock.ts";
import { silentLogger } from "../src/base/log.ts";
import { type ColonyStore, openColonyStore } from "../src/store/colony/index.ts";
import { openEngine } from "../src/store/engine/index.ts";
import { derivedSignals, segmentSignals, signals } from "../src/store/signals/index.ts";
import { type CoralDaemon, type CoralHome, coralFile } from "./lib/coral-process.ts";
import { sendByHttp } from "./lib/http-sender.ts";
import { openFilledHome } from "./lib/kept-home.ts";
import { usageOf } from "./lib/process-usage.ts";
import { type Figure, figureOf, isSmall, report, single } from "./lib/report.ts";
import { fillHosts, fillRequests } from "./lib/request-world.ts";
import { fillColony, runWriter } from "./lib/span-colony.ts";
import { makeSpanRequests } from "./lib/span-requests.ts";
import { percentileOf } from "./lib/spread.ts";
import { role, roleArguments, Worker } from "./lib/worker.ts";

const spans = isSmall ? 1_000_000 : 10_000_000;
const services = 1_000;
const agents = 100;
const rounds = Number(process.env["CORAL_BENCH_ROUNDS"] ?? (isSmall ? 10 : 40));
const commandRounds = isSmall ? 3 : 10;
/** Concurrent callers in the mixed load. */
const clients = 8;
const mixedSeconds = isSmall ? 15 : 60;
/** Rate of spans that arrive during the mixed load. */
const spansPerSecond = 3_000;
const mebibyte = 1024 ** 2;
const hourMs = 3_600_000;
const listIn = (key: string): string[] => (process.env[key] ?? "").split(",").filter((text) => text !== "");
const wantedParts = listIn("CORAL_BENCH_PARTS");
const wantedQuestions = listIn("CORAL_BENCH_ONLY");
const answersDirectory = process.env["CORAL_BENCH_ANSWERS"];
const isWanted = (part: string): boolean => wantedParts.length === 0 || wantedParts.includes(part);
const traceEveryUs = (2 * hourMs * 1_000) / (spans / 5);

interface Question {
  name: string;
  tool: string;
  belowMs: number;
  input: (round: number) => Record<string, unknown>;
  /** Throws if the result does not match the store. */
  check: (answer: Record<string, unknown>) => void;
  /** The equivalent command. */
  command?: readonly string[];
}

/** Alternates between busy and quiet services. */
const serviceOf = (round: number): string => `service-${[0, 3, 20, 150, 700][round % 5]}`;

function hasRows(key: string, atLeast: number): Question["check"] {
  return (answer) => {
    const rows = answer[key];
    if (!Array.isArray(rows) || rows.length < atLeast) throw new Error(`"${key}" has ${Array.isArray(rows) ? rows.length : "no"} rows`);
  };
}

function questionsOf(traces: readonly string[]): Question[] {
  // The last traces are incomplete.
  const whole = traces.slice(0, Math.floor(traces.length * 0.9));
  return [
    {
      name: "RED of one service",
      tool: "coral_query_red",
      belowMs: 60,
      input: (round) => ({ service: serviceOf(round) }),
      check: hasRows("rows", 3),
      command: ["query", "red", "service-3"],
    },
    {
      name: "summary of all services",
      tool: "coral_query_summary",
      belowMs: 100,
      input: () => ({}),
      check: hasRows("services", 20),
      command: ["query", "summary"],
    },
    {
      name: "topology of 1 h",
      tool: "coral_get_topology",
      belowMs: 200,
      input: () => ({ since: "1h" }),
      check: hasRows("edges", 100),
      command: ["network", "topology"],
    },
    {
      name: "traces with an error, 1 h",
      tool: "coral_query_traces",
      belowMs: 200,
      input: () => ({ error: true, since: "1h" }),
      check: hasRows("traces", 20),
      command: ["query", "traces", "--error"],
    },
    {
      name: "one service's traces with an error, 1 h",
      tool: "coral_query_traces",
      belowMs: 200,
      input: (round) => ({ error: true, since: "1h", service: serviceOf(round) }),
      check: hasRows("traces", 1),
    },
    {
      name: "traces by route, 1 h",
      tool: "coral_query_traces",
      belowMs: 200,
      input: (round) => ({ route: `/things/{id}/${round % 5}`, since: "1h" }),
      check: hasRows("traces", 20),
    },
    {
      name: "traces by an attribute, 1 h",
      tool: "coral_query_traces",
      belowMs: 200,
      input: (round) => ({ where: [`net.peer.ip=10.0.${round % 250}.7`], since: "1h" }),
      check: hasRows("traces", 20),
    },
    {
      name: "diagnosis",
      tool: "coral_diagnose",
      belowMs: 1_000,
      input: () => ({}),
      check: ({ verdict }) => {
        if (typeof verdict !== "string") throw new Error("there is no verdict");
      },
      command: ["diagnose"],
    },
    {
      name: "a trace by its id",
      tool: "coral_query_traces",
      belowMs: 40,
      input: (round) => ({ traceId: whole[(round * 7) % whole.length] }),
      check: ({ trace }) => {
        const { totalSpans, spans: found } = (trace ?? {}) as { totalSpans?: number; spans?: unknown[] };
        if (found?.length !== 5) throw new Error(`A trace has ${found?.length} (${totalSpans}) spans instead of 5`);
      },
    },
  ];
}

/** Fills the colony of this home as if it had run for two hours until now. */
async function fill(directory: string, nowMs: number): Promise<string[]> {
  // While filling, roll-ups run every ten minutes of span time.
  let passedMs = 0;
  const clock: Clock = { wallMs: () => nowMs, monotonicMs: () => performance.now() + passedMs };
  mkdirSync(directory, { recursive: true });
  await using engine = await openEngine({
    dataDirectories: [directory],
    memoryLimitBytes: 1_024 * mebibyte,
    threads: 2,
    tempDirectory: directory,
    log: silentLogger,
  });
  const open = (): Promise<ColonyStore> =>
    openColonyStore(engine, {
      file: join(directory, "colony.duckdb"),
      signals: [...signals, ...derivedSignals],
      maxBytes: 16 * 1_024 * mebibyte,
      segments: { signals: segmentSignals, directory, maxBytes: 16 * 1_024 * mebibyte },
      clock,
      log: silentLogger,
    });
  const world = { services, agents, nowMs };
  const first = await open();
  await fillHosts(first, world);
  await fillRequests(first, world, { hooks: [0, services], spans: [0, 0] });
  await first.close();
  await using store = await open();
  await using writer = new Worker("writer", [directory, String(nowMs)]);
  let segments = 0;
  const rollUp = async (): Promise<void> => {
    passedMs += hourMs / 6;
    await store.rollup();
  };
  const traces = await fillColony(store, writer, spans, async () => {
    if (++segments % 10 === 0) await store.derive();
    if (segments % 50 === 0) await rollUp();
  });
  await store.derive();
  await rollUp();
  await store.database.checkpoint();
  const [counted] = await store.query("SELECT sum(requests) AS n FROM raw.span_red");
  const stored = store.segments?.stats()["span"]?.rows;
  if (Number(counted?.["n"]) !== stored) throw new Error(`${counted?.["n"]} of ${stored} spans were counted`);
  return traces;
}

/** One client with its own connection. */
class Client {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 });
  readonly #port: number;
  readonly #token: string;

  constructor(port: number, token: string) {
    this.#port = port;
    this.#token = token;
  }

  async ask({ tool, input, check, name }: Question, round: number): Promise<number> {
    const startMs = performance.now();
    const text = await this.#post(`/v1/tools/${tool}`, JSON.stringify(input(round)));
    const takenMs = performance.now() - startMs;
    if (answersDirectory !== undefined) writeFileSync(join(answersDirectory, `${name.replaceAll(/\W+/g, "-")}-${round}.json`), text);
    try {
      check(JSON.parse(text) as Record<string, unknown>);
    } catch (error) {
      throw new Error(`Wrong answer to "${name}", round ${round}: ${text.slice(0, 600)}`, { cause: error });
    }
    return takenMs;
  }

  #post(path: string, body: string): Promise<string> {
    return new Promise((resolve, reject) => {
      const headers = {
        authorization: `Bearer ${this.#token}`,
        "content-type": "application/json",
        "content-length": Buffer.byteLength(body),
      };
      const sent = request({ port: this.#port, host: "127.0.0.1", method: "POST", path, headers, agent: this.#agent }, (response) => {
        const parts: Buffer[] = [];
        response.on("data", (part: Buffer) => parts.push(part));
        response.on("end", () => resolve(Buffer.concat(parts).toString()));
        response.on("error", reject);
      });
      sent.on("error", reject);
      sent.end(body);
    });
  }

  close(): void {
    this.#agent.destroy();
  }
}

const p95 = (values: readonly number[]): number =>
  percentileOf(
    [...values].sort((a, b) => a - b),
    0.95,
  );

async function askAlone(client: Client, questions: readonly Question[], pid: number): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const question of questions) {
    for (let round = 0; round < 5; round++) await client.ask(question, round);
    const takenMs: number[] = [];
    const before = usageOf(pid);
    for (let round = 0; round < rounds; round++) takenMs.push(await client.ask(question, round));
    const cpuMs = (usageOf(pid).cpuMs - before.cpuMs) / rounds;
    figures.push(
      figureOf(question.name, "ms", takenMs),
      figureOf(`${question.name}, p95`, "ms", single(p95(takenMs)), { kind: "below", value: question.belowMs }),
      figureOf(`${question.name}, CPU of the colony`, "ms", single(cpuMs)),
    );
  }
  return figures;
}

/** Elapsed time of whole commands, compared with an empty Node process. */
function askByCommand(home: CoralHome, questions: readonly Question[]): Figure[] {
  const timed = (file: string, args: readonly string[]): number => {
    const startMs = performance.now();
    const { status, stderr } = spawnSync(file, args, { env: home.env, encoding: "utf8", maxBuffer: 64 * mebibyte });
    if (status !== 0) throw new Error(`${file} ${args.join(" ")} exited with ${status}: ${stderr}`);
    return performance.now() - startMs;
  };
  return questions.flatMap(({ command }) => {
    if (command === undefined) return [];
    const [taken, empty]: [number[], number[]] = [[], []];
    for (let round = 0; round < commandRounds; round++) {
      empty.push(timed(process.execPath, ["-e", "0"]));
      taken.push(timed(coralFile, command));
    }
    const ratios = taken.map((ms, round) => ms / (empty[round] ?? Number.NaN));
    return [figureOf(`coral ${command.join(" ")}`, "ms", taken), figureOf(`coral ${command.join(" ")}, to node -e 0`, "×", ratios)];
  });
}

async function askTogether(make: () => Client, questions: readonly Question[], otlpPort: number, pid: number): Promise<Figure[]> {
  const sending = sendByHttp(
    {
      port: otlpPort,
      path: "/v1/traces",
      requests: makeSpanRequests(20, { minSpans: 50, maxSpans: 150, seed: 5 }),
      connections: 2,
      spansPerSecond,
      firstSending: 1,
    },
    (mixedSeconds + 3) * spansPerSecond,
  );
  const untilMs = performance.now() + mixedSeconds * 1_000;
  const before = usageOf(pid);
  const taken = await Promise.all(
    Array.from({ length: clients }, async (_, number) => {
      const client = make();
      const takenMs: number[] = [];
      for (let round = number; performance.now() < untilMs; round++) {
        takenMs.push(await client.ask(questions[round % questions.length] as Question, round));
      }
      client.close();
      return takenMs;
    }),
  );
  const after = usageOf(pid);
  const { spans: sent, refused, seconds } = await sending;
  const all = taken.flat();
  return [
    figureOf(`${clients} clients with mixed questions while spans arrive`, "ms", all),
    figureOf(`${clients} clients, p95`, "ms", single(p95(all)), { kind: "below", value: 500 }),
    figureOf(`${clients} clients, CPU of the colony by answer`, "ms", single((after.cpuMs - before.cpuMs) / all.length)),
    figureOf(`${clients} clients, answers`, "requests/s", single(all.length / mixedSeconds)),
    figureOf("spans acknowledged meanwhile", "rows/s", single(sent / seconds)),
    figureOf("requests with spans that were refused", "requests", single(refused), { kind: "at-most", value: 0 }),
    figureOf("colony RSS, peak", "MiB", single(after.peakRssBytes / mebibyte)),
  ];
}

async function measure(home: CoralHome, daemon: CoralDaemon, traces: readonly string[]): Promise<void> {
  const { endpoints } = JSON.parse(home.run("colony", "status", "--json")).colony as { endpoints: string[] };
  const port = Number(/^https:.*:(\d+)$/.exec(endpoints[0] ?? "")?.[1]);
  const { token } = JSON.parse(home.run("colony", "token", "create", "--kind", "user", "--json")) as { token: string };
  const otlpPort = Number(/OTLP[^\n]*HTTP[^\n]*?127\.0\.0\.1:(\d+)/i.exec(daemon.output)?.[1]);
  const client = new Client(port, token);
  const questions = questionsOf(traces).filter(
    ({ name }) => wantedQuestions.length === 0 || wantedQuestions.some((part) => name.includes(part)),
  );
  const alone = isWanted("alone") ? await askAlone(client, questions, daemon.pid) : [];
  const commands = isWanted("commands") ? askByCommand(home, questions) : [];
  const together = isWanted("together") ? await askTogether(() => new Client(port, token), questions, otlpPort, daemon.pid) : [];
  client.close();
  report({
    name: "tool-latency",
    sizes: { spans, services, agents, rounds, clients },
    figures: [...alone, ...commands, ...together],
  });
}

async function fillHome(home: CoralHome, nowMs: number): Promise<{ traces: string[] }> {
  const [colonyId = ""] = readdirSync(join(home.path, "colonies"));
  const traces = await fill(join(home.path, "colonies", colonyId, "data"), nowMs);
  const config = join(home.path, "colonies", colonyId, "colony.yaml");
  writeFileSync(config, "otlp:\n  enabled: true\n  grpc:\n    enabled: false\n  http:\n    listen: 127.0.0.1:0\n", { flag: "a" });
  return { traces };
}

async function runMain(): Promise<void> {
  const filled = await openFilledHome(`tool-latency-${spans}`, fillHome);
  using home = filled.home;
  const { traces } = filled.facts;
  await using daemon = await home.start(["colony", "start", "--port", "0"], () => home.run("colony", "status"));
  await measure(home, daemon, traces);
}

if (role === "writer") {
  const startUs = (Number(roleArguments[1]) - 2 * hourMs) * 1_000;
  await runWriter(roleArguments[0] ?? "", { services, agents: 4, segmentRows: 20_000, startUs, traceEveryUs, seed: 7 });
} else await runMain();
