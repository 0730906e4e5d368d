import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/log.ts";
import type { AgentConfig, AgentPaths, FileOwner } from "../config/index.ts";
import type { HostReader } from "../host/index.ts";
import type { CapabilityFact } from "../model/runtime-facts.ts";
import type { ProfileSupervisor, SuperviseProfilesOptions } from "../profile/index.ts";
import type { Engine } from "../store/engine/index.ts";
import type { ControlServerOptions } from "../transport/index.ts";
import type { FetchClusterJson } from "./naming/kubernetes-pods.ts";
import type { OpenTrafficOptions } from "./open-traffic.ts";

export interface AgentOptions {
  config: AgentConfig;
  paths: AgentPaths;
  engine: Engine;
  version: string;
  owner: FileOwner | undefined;
  peerCredentials: ControlServerOptions["peerCredentials"];
  obtainToken: () => Promise<string | undefined>;
  /** The endpoint of a colony on this machine; undefined when there is none. */
  locateColony: (colonyId: string) => Promise<string | undefined>;
  /** Reads from the Kubernetes API; absent: the API is not used. */
  fetchClusterJson?: FetchClusterJson;
  /** Capabilities of the agent on this host, with a reason for each missing one. */
  capabilities: { name: string; available: boolean; reason: string }[];
  /** Capabilities that the kernel decides: ebpf, profile, debug. */
  kernel?: readonly CapabilityFact[];
  /** How many following ports to try if a port is in use. */
  portSearch: number;
  /** Other processes of Coral: their requests are not observed. */
  ownPids?: () => readonly number[];
  /** Starts the traffic process; default: the real one. */
  superviseTraffic?: NonNullable<OpenTrafficOptions["supervise"]>;
  /** Starts the profile process; default: the real one. */
  superviseProfiles?: (options: SuperviseProfilesOptions) => ProfileSupervisor;
  /** Called when OTLP load becomes heavy enough to trade memory for speed, and when that ends. */
  onOtlpLoad?: (isBusy: boolean) => void;
  /** The same, for the output of commands. */
  onCommandLoad?: (isBusy: boolean) => void;
  clock: Clock;
  log: Logger;
}

/** Shared by all parts of a running agent. `config` is replaced by a reload: read it on each use. */
export interface AgentContext extends AgentOptions {
  agentId: string;
  hostname: string;
  reader: HostReader;
  machine: ReturnType<HostReader["machine"]>;
  /** Aborts when the agent stops. */
  stopped: AbortSignal;
}
