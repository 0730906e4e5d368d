/** Runs the load generator wrk and reads all latencies that it measured. */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface WrkOptions {
  url: string;
  seconds: number;
  connections: number;
  threads?: number;
  /** Pause of each connection between a response and the next request. Default: none. */
  delayMs?: number;
  /** Opens a new connection for each request. */
  isClosing?: boolean;
}

/** The outcome of one run. */
export interface WrkResult {
  requests: number;
  errors: number;
  seconds: number;
  /** As wrk prints them, corrected for coordinated omission. */
  printed: LatencyCounts;
  /** As measured, one per request. */
  measured: LatencyCounts;
}

/** Latency in microseconds, ascending, with the number of requests. */
export type LatencyCounts = readonly (readonly [us: number, count: number])[];

const script = (delayMs: number, isClosing: boolean): string => `
${delayMs > 0 ? `function delay() return ${delayMs} end` : ""}
${isClosing ? 'wrk.headers["Connection"] = "close"' : ""}
function done(summary, latency)
  local e = summary.errors
  io.write("SUMMARY ", summary.requests, " ", e.connect + e.read + e.write + e.status + e.timeout, " ", summary.duration, "\\n")
  for i = 1, #latency do
    local us, count = latency(i)
    io.write("L ", us, " ", count, "\\n")
  end
end
`;

/** The load generator https://github.com/wg/wrk. */
export class Wrk {
  readonly result: Promise<WrkResult>;
  readonly #child: ChildProcess;

  constructor({ url, seconds, connections, threads = 1, delayMs = 0, isClosing = false }: WrkOptions) {
    const directory = mkdtempSync(join(tmpdir(), "coral-wrk-"));
    const file = join(directory, "latencies.lua");
    writeFileSync(file, script(delayMs, isClosing));
    const args = ["-t", String(threads), "-c", String(connections), "-d", `${seconds}s`, "-s", file, url];
    this.#child = spawn("wrk", args, { stdio: ["ignore", "pipe", "inherit"] });
    this.result = this.#read(connections).finally(() => rmSync(directory, { recursive: true, force: true }));
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Stops the load early; the measurements so far are returned. */
  async stop(): Promise<WrkResult> {
    this.#child.kill("SIGINT");
    return this.result;
  }

  async #read(connections: number): Promise<WrkResult> {
    const chunks: Buffer[] = [];
    this.#child.stdout?.on("data", (chunk: Buffer) => chunks.push(chunk));
    const [code] = await once(this.#child, "close");
    const text = Buffer.concat(chunks).toString();
    const summary = /^SUMMARY (\d+) (\d+) (\d+)$/m.exec(text);
    if (code !== 0 || !summary) throw new Error(`wrk exited with ${code}: ${text}`);
    const [requests = 0, errors = 0, durationUs = 0] = summary.slice(1).map(Number);
    const printed = [...text.matchAll(/^L (\d+) (\d+)$/gm)].map(([, us, count]) => [Number(us), Number(count)] as const);
    const perConnection = Math.floor(requests / connections);
    const measured = perConnection > 0 ? uncorrected(printed, Math.floor(durationUs / perConnection)) : printed;
    return { requests, errors, seconds: durationUs / 1e6, printed, measured };
  }
}

/**
 * Undoes wrk's correction for coordinated omission: for each request of `n` µs, at least twice the mean interval of a connection, wrk adds one of
 * `n - k·interval` for every `k` that leaves more than the interval. Additions to a value come from greater values only, so the loop runs from the top.
 */
export function uncorrected(printed: LatencyCounts, intervalUs: number): LatencyCounts {
  const counts = new Map(printed);
  const measured: [number, number][] = [];
  for (const [us] of [...printed].reverse()) {
    const count = counts.get(us) ?? 0;
    if (count <= 0) continue;
    measured.push([us, count]);
    if (us < 2 * intervalUs) continue;
    for (let added = us - intervalUs; added > intervalUs; added -= intervalUs) counts.set(added, (counts.get(added) ?? 0) - count);
  }
  return measured.reverse();
}

export function latencyPercentileUs(latencies: LatencyCounts, share: number): number {
  const total = latencies.reduce((sum, [, count]) => sum + count, 0);
  let seen = 0;
  for (const [us, count] of latencies) {
    seen += count;
    if (seen >= share * total) return us;
  }
  return Number.NaN;
}
