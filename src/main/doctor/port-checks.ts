import { once } from "node:events";
import { createServer } from "node:net";
import type { DoctorCheck } from "../../cli/index.ts";
import {
  agentPaths,
  colonyConfigSchema,
  colonyPaths,
  type ListenAddress,
  listLocalColonies,
  loadAgentConfig,
  loadColonyConfig,
} from "../../config/index.ts";
import { createHostReader, type Listener } from "../../host/index.ts";
import { runningHolder } from "../daemon/pid-file.ts";

interface WantedPort {
  name: string;
  address: ListenAddress;
  /** The daemon that should listen on it, if it runs. */
  daemonPid: number | undefined;
}

/** Whether each configured address is free, and otherwise which process uses it. */
export async function checkPorts(home: string): Promise<DoctorCheck[]> {
  const wanted = await wantedPorts(home);
  const { listeners } = await createHostReader().listeners();
  return Promise.all(wanted.map(async (port) => describePort(port, listeners, await isFree(port.address))));
}

async function wantedPorts(home: string): Promise<WantedPort[]> {
  const colonies = await listLocalColonies(home);
  const ports: WantedPort[] = [];
  for (const colonyId of colonies) {
    const { config } = await loadColonyConfig({ home, colonyId });
    ports.push({ name: `colony ${colonyId}`, address: config.listen, daemonPid: runningHolder(colonyPaths(home, colonyId).pidFile)?.pid });
  }
  if (colonies.length === 0) {
    ports.push({ name: "a new colony", address: colonyConfigSchema.parse({ id: "new" }).listen, daemonPid: undefined });
  }
  const { config } = await loadAgentConfig({ home });
  ports.push({ name: "agent", address: config.listen, daemonPid: runningHolder(agentPaths(home).pidFile)?.pid });
  return ports;
}

async function isFree({ host, port }: ListenAddress): Promise<boolean> {
  const server = createServer();
  try {
    server.listen({ host, port, exclusive: true });
    await once(server, "listening");
    return true;
  } catch {
    // In use, or not an address of this machine: the caller looks up the process.
    return false;
  } finally {
    server.close();
  }
}

export function describePort({ name, address, daemonPid }: WantedPort, listeners: readonly Listener[], free: boolean): DoctorCheck {
  const where = `${address.host}:${address.port}`;
  const base = { area: "mesh", name: `port of ${name}` } as const;
  if (address.port === 0) return { ...base, state: "ok", detail: `${address.host}, any free port` };
  if (free) {
    return {
      ...base,
      state: "ok",
      detail: daemonPid === undefined ? `${where} is free` : `${where} is free; the daemon uses another port`,
    };
  }
  const holder = listeners.find((listener) => listener.port === address.port && (listener.pid === daemonPid || daemonPid === undefined));
  const other = holder ?? listeners.find((listener) => listener.port === address.port);
  if (daemonPid !== undefined && holder !== undefined)
    return { ...base, state: "ok", detail: `${where} is in use by the daemon, pid ${daemonPid}` };
  const who = other === undefined ? "is unavailable" : `is in use by ${other.service}${other.pid === null ? "" : ` (pid ${other.pid})`}`;
  return {
    ...base,
    state: "degraded",
    detail: `${where} ${who}`,
    fix: "change listen in the config; without an explicit port, the next free one is used",
  };
}
