/** A colony and an agent with short scan intervals on this machine, and programs for them to discover. */

import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import type { ServiceProcess } from "../../src/model/services.ts";
import type { EventList, Service, ServiceList } from "../../src/tools/index.ts";
import { type AgentDaemon, type ColonyDaemon, DaemonProcess, startAgent, startColony } from "./daemon.ts";
import { cleanEnvironment, makeTestHome, type TestHome } from "./test-home.ts";
import { waitFor } from "./wait-for.ts";

/** No DNS lookups; the colony learns of changes within two seconds. */
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

  /** Starts a program. It ends with the host, together with its process group. */
  spawn(command: readonly string[], { env = {}, cwd }: { env?: Record<string, string>; cwd?: string } = {}): DaemonProcess {
    const [program = "", ...args] = command;
    const all = cleanEnvironment("/nonexistent", env);
    const child = spawn(program, args, { env: all, cwd, stdio: ["ignore", "pipe", "pipe"], detached: true });
    const daemon = new DaemonProcess(program, child);
    this.#programs.push(daemon);
    return daemon;
  }

  /** Service names registered for a port, of any status. */
  async servicesAt(port: number): Promise<Service[]> {
    const { services } = await this.colony.tool<ServiceList>("coral_list_services", { processes: true, limit: 10_000 });
    return services.filter((service) => service.ports.some((item) => item.port === port));
  }

  /** Waits until the process is a known instance of the service at a port, and returns that service. */
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

/** Kills the process group: killing the program alone would leave its workers. */
export async function endGroup(program: DaemonProcess): Promise<void> {
  try {
    process.kill(-program.pid, "SIGKILL");
  } catch (error) {
    // The process group has already ended.
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
  await program.ended;
}

/** Pids of the children of a process. */
export function childrenOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").filter(Boolean).map(Number);
}
