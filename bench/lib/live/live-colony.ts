/** A real `coral up` with its hooks loaded, queried by commands as a user does. */

import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { DiagnosisResult } from "../../../src/tools/schemas/diagnosis.ts";
import type { ServiceSummary, SummaryResult } from "../../../src/tools/schemas/summary.ts";
import { type CoralDaemon, CoralHome, coralFile, until } from "../coral-process.ts";
import { freePort } from "../web-servers.ts";

const attemptsMax = 3;

/** A daemon with a colony and an agent, as a child process of the benchmark. */
export class LiveColony implements AsyncDisposable {
  readonly home: CoralHome;
  #daemon: CoralDaemon;
  /** The OTLP endpoint for spans. */
  readonly otlpUrl: string;

  private constructor(home: CoralHome, daemon: CoralDaemon, otlpUrl: string) {
    this.home = home;
    this.#daemon = daemon;
    this.otlpUrl = otlpUrl;
  }

  /** With a path, its data stay there and are used again by the next one. */
  static async start(keptPath?: string): Promise<LiveColony> {
    const home = new CoralHome(keptPath);
    const otlpPort = await freePort();
    writeFileSync(join(home.path, "agent.yaml"), `otlp:\n  grpc:\n    enabled: false\n  http:\n    listen: 127.0.0.1:${otlpPort}\n`);
    try {
      return new LiveColony(home, await startUp(home), `http://127.0.0.1:${otlpPort}`);
    } catch (error) {
      home[Symbol.dispose]();
      throw error;
    }
  }

  /** The output of `coral query summary --json`: worst first. A failed command is repeated: on a busy machine it may time out. */
  async summary(): Promise<ServiceSummary[]> {
    for (let attempt = 1; ; attempt++) {
      this.#daemon.check();
      try {
        return (JSON.parse(await this.run("query", "summary", "--json", "--limit", "1000")) as SummaryResult).services;
      } catch (error) {
        if (attempt === attemptsMax) throw error;
      }
    }
  }

  /** The output of `coral diagnose --json`. */
  async diagnose(...args: string[]): Promise<DiagnosisResult> {
    this.#daemon.check();
    return JSON.parse(await this.run("diagnose", ...args, "--json")) as DiagnosisResult;
  }

  /** Restarts the daemon with the same data. */
  async restart(): Promise<void> {
    await this.#daemon[Symbol.asyncDispose]();
    this.#daemon = await startUp(this.home);
  }

  /** Asynchronous, because the load's counts are read meanwhile. */
  async run(...args: string[]): Promise<string> {
    const child = spawn(coralFile, args, { env: this.home.env, stdio: ["ignore", "pipe", "pipe"] });
    let [out, failed] = ["", ""];
    child.stdout.setEncoding("utf8").on("data", (part: string) => (out += part));
    child.stderr.setEncoding("utf8").on("data", (part: string) => (failed += part));
    const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
    if (code !== 0) throw new Error(`coral ${args.join(" ")} exited with ${code}: ${failed}`);
    return out;
  }

  async wait(ms: number): Promise<void> {
    await sleep(ms);
    this.#daemon.check();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#daemon[Symbol.asyncDispose]();
    this.home[Symbol.dispose]();
  }
}

async function startUp(home: CoralHome): Promise<CoralDaemon> {
  const daemon = await home.start(["up", "--port", "0"], () => home.run("status"));
  await until("requests are traced", 60_000, () => {
    daemon.check();
    const { traffic } = JSON.parse(home.run("agent", "status", "-o", "json")) as { traffic?: { state: string; reason?: string } };
    if (traffic?.state !== "on") throw new Error(`Traffic is ${traffic?.state ?? "unknown"}: ${traffic?.reason ?? ""}`);
  });
  return daemon;
}
