import type { Clock } from "../base/clock.ts";
import type { Logger } from "../base/log.ts";
import type { AgentConfig, AgentPaths, FileOwner } from "../config/index.ts";
import type { HostReader } from "../host/index.ts";
import type { CapabilityFact } from "../model/runtime-facts.ts";
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
  /** Where a colony of this machine listens now; undefined when it is elsewhere or away. */
  locateColony: (colonyId: string) => Promise<string | undefined>;
  /** Asks the API of a Kubernetes cluster; absent: it is not asked. */
  fetchClusterJson?: FetchClusterJson;
  /** What this host lets the agent do, with reasons where not. */
  capabilities: { name: string; available: boolean; reason: string }[];
  /** What the kernel lets it do: ebpf, profile, debug. */
  kernel?: readonly CapabilityFact[];
  /** Ports to try after a taken one. */
  portSearch: number;
  /** Processes of Coral beside this one, now: their requests are not watched. */
  ownPids?: () => readonly number[];
  /** Starts the process that watches requests; default: the real one. */
  superviseTraffic?: NonNullable<OpenTrafficOptions["supervise"]>;
  /** Told when so much OTLP comes that being fast is worth memory, and when that is over. */
  onOtlpLoad?: (isBusy: boolean) => void;
  /** The same, for the output of commands. */
  onCommandLoad?: (isBusy: boolean) => void;
  clock: Clock;
  log: Logger;
}

/** What all parts of a running agent are made with. `config` is that of the last reload: whoever must see changes reads it each time. */
export interface AgentSetting extends AgentOptions {
  agentId: string;
  hostname: string;
  reader: HostReader;
  machine: ReturnType<HostReader["machine"]>;
  /** Aborts when the agent is closed. */
  stopped: AbortSignal;
}
