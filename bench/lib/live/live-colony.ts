/** A real `coral up` with its hooks loaded, and its answers as a user gets them. */

import { spawn } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import type { ServiceSummary, SummaryResult } from "../../../src/tools/schemas/summary.ts";
import { type CoralDaemon, CoralHome, coralFile, until } from "../coral-process.ts";

const attemptsMax = 3;

export class LiveColony implements AsyncDisposable {
  readonly home: CoralHome;
  readonly #daemon: CoralDaemon;

  private constructor(home: CoralHome, daemon: CoralDaemon) {
    this.home = home;
    this.#daemon = daemon;
  }

  static async start(): Promise<LiveColony> {
    const home = new CoralHome();
    try {
      const daemon = await home.start(["up", "--port", "0"], () => home.run("status"));
      const colony = new LiveColony(home, daemon);
      await until("requests are traced", 60_000, () => {
        const { traffic } = JSON.parse(home.run("agent", "status", "-o", "json")) as { traffic?: { state: string; reason?: string } };
        if (traffic?.state !== "on") throw new Error(`Traffic is ${traffic?.state ?? "unknown"}: ${traffic?.reason ?? ""}`);
      });
      return colony;
    } catch (error) {
      home[Symbol.dispose]();
      throw error;
    }
  }

  /** What `coral query summary --json` prints: worst first. A command that failed is repeated: on a full machine one may get no answer in time. */
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

  /** Without blocking: the load's counts are read meanwhile. */
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
