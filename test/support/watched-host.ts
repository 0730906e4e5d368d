/** This machine with a colony and an agent that look often, and programs to be found by them. */

import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import type { EventList, Service, ServiceList, ServiceProcess } from "../../src/tools/index.ts";
import { type AgentDaemon, type ColonyDaemon, DaemonProcess, startAgent, startColony } from "./daemon.ts";
import { cleanEnvironment, makeTestHome, type TestHome } from "./test-home.ts";
import { waitFor } from "./wait-for.ts";

/** Nothing is asked of DNS servers, and what agents see is known within two seconds. */
export const fastColonyConfig = `
pull:
  interval: 500ms
service_discovery:
  interval: 1s
  external_resolution:
    reverse_dns: false
`;
export const fastAgentConfig = `
service_discovery:
  report_interval: 2s
  methods:
    - type: listening_sockets
      config:
        scan_interval: 1s
    - type: connection_tracking
`;

export interface FoundProcess extends ServiceProcess {
  service: Service;
}

export class WatchedHost implements AsyncDisposable {
  readonly home: TestHome;
  readonly colony: ColonyDaemon;
  readonly agent: AgentDaemon;
  readonly #programs: DaemonProcess[] = [];

  private constructor(home: TestHome, colony: ColonyDaemon, agent: AgentDaemon) {
    this.home = home;
    this.colony = colony;
    this.agent = agent;
  }

  static async start({ traffic = false }: { traffic?: boolean } = {}): Promise<WatchedHost> {
    const home = makeTestHome();
    const colony = await startColony({ home: home.path, config: fastColonyConfig });
    const agent = await startAgent({ home: home.path, config: fastAgentConfig, traffic });
    await agent.waitUntilConnected();
    return new WatchedHost(home, colony, agent);
  }

  /** Ends with the host, as do all processes that it makes in its group. */
  spawn(command: readonly string[], { env = {}, cwd }: { env?: Record<string, string>; cwd?: string } = {}): DaemonProcess {
    const [program = "", ...args] = command;
    const all = cleanEnvironment("/nonexistent", env);
    const child = spawn(program, args, { env: all, cwd, stdio: ["ignore", "pipe", "pipe"], detached: true });
    const daemon = new DaemonProcess(program, child);
    this.#programs.push(daemon);
    return daemon;
  }

  /** Names that the registry has for a port, whatever their status. */
  async servicesAt(port: number): Promise<Service[]> {
    const { services } = await this.colony.tool<ServiceList>("coral_list_services", { processes: true, limit: 10_000 });
    return services.filter((service) => service.ports.some((item) => item.port === port));
  }

  /** The service at a port, as soon as the process is known to be one of its instances. */
  async waitForProcess(port: number, pid: number): Promise<FoundProcess> {
    let seen: Service[] = [];
    return waitFor(
      `process ${pid} at port ${port} to be found`,
      async () => {
        seen = await this.servicesAt(port);
        const [service] = seen;
        const process = service?.agents[0]?.processes?.find((one) => one.pid === pid && one.build !== null);
        return service && process && { ...process, service };
      },
      { intervalMs: 300, details: () => JSON.stringify(seen, undefined, 1) },
    );
  }

  async waitForEvent(kind: string, service: string, nth = 1): Promise<EventList["events"][number]> {
    let seen: EventList["events"] = [];
    return waitFor(
      `event ${kind} of ${service}`,
      async () => {
        seen = (await this.colony.tool<EventList>("coral_list_events", { service })).events;
        return seen.filter((event) => event.kind === kind).at(-nth);
      },
      { intervalMs: 300, details: () => JSON.stringify(seen, undefined, 1) },
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#programs.map(endGroup));
    for (const resource of [this.agent, this.colony, this.home]) await resource[Symbol.asyncDispose]();
  }
}

/** A program that is killed leaves its workers behind. */
export async function endGroup(program: DaemonProcess): Promise<void> {
  try {
    process.kill(-program.pid, "SIGKILL");
  } catch (error) {
    // Nobody of it is left.
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
  await program.ended;
}

/** Pids of a process's children. */
export function childrenOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").filter(Boolean).map(Number);
}
