/** Simulated hosts: each has its own network, PID, mount and UTS namespace. The machine's own network is never touched. */

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { DaemonProcess } from "./daemon.ts";
import { hasProgram } from "./has-program.ts";
import { cleanEnvironment } from "./test-home.ts";
import { waitFor } from "./wait-for.ts";

/** One host. It ends with all of its processes when it is disposed or when this process ends. */
export class NetworkHost implements AsyncDisposable {
  readonly name: string;
  /** Pid of its init process, in this process's namespace. */
  readonly pid: number;
  readonly #unshare: ChildProcess;

  private constructor(name: string, unshare: ChildProcess, initPid: number) {
    this.name = name;
    this.#unshare = unshare;
    this.pid = initPid;
  }

  static async start(name: string): Promise<NetworkHost> {
    // `cat` ends at EOF, which the kernel delivers even if this process is killed. The PID namespace ends with it.
    const namespaces = ["--net", "--pid", "--uts", "--fork", "--kill-child", "--mount-proc"];
    const unshare = spawn("unshare", [...namespaces, "cat"], { stdio: ["pipe", "ignore", "inherit"] });
    const initPid = await waitFor(`host ${name}`, () => {
      const child = readFileSync(`/proc/${unshare.pid}/task/${unshare.pid}/children`, "utf8").trim();
      return child !== "" && readFileSync(`/proc/${child}/comm`, "utf8") === "cat\n" && Number(child);
    });
    const host = new NetworkHost(name, unshare, initPid);
    host.run("hostname", name);
    host.run("ip", "link", "set", "lo", "up");
    return host;
  }

  /** argv prefix: runs a program in this host's network namespace only. The program keeps its pid. */
  get networkLauncher(): string[] {
    return ["nsenter", `--target=${this.pid}`, "--net"];
  }

  /** argv prefix: runs a program inside this host. Signals reach only the wrapper process; use `kill` instead. */
  get launcher(): string[] {
    return [...this.networkLauncher, "--pid", "--mount", "--uts"];
  }

  /** Runs a program to its end. Throws with its output if it failed. */
  run(program: string, ...args: string[]): string {
    const [nsenter = "", ...rest] = this.launcher;
    return execFileSync(nsenter, [...rest, program, ...args], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  }

  /** Starts a program that runs until the host ends or until `kill`. */
  spawn(name: string, program: string, args: readonly string[], env: Record<string, string> = {}): DaemonProcess {
    const [nsenter = "", ...rest] = this.launcher;
    return new DaemonProcess(
      `${name} on ${this.name}`,
      spawn(nsenter, [...rest, program, ...args], { env: cleanEnvironment("/nonexistent", env), stdio: ["ignore", "pipe", "pipe"] }),
    );
  }

  /** Kills a program that `spawn` started here. */
  async kill(daemon: DaemonProcess): Promise<void> {
    process.kill(Number(readFileSync(`/proc/${daemon.pid}/task/${daemon.pid}/children`, "utf8").trim()), "SIGKILL");
    await daemon.ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#unshare.exitCode !== null || this.#unshare.signalCode !== null) return;
    const ended = new Promise((resolve) => {
      this.#unshare.once("close", resolve);
    });
    this.#unshare.stdin?.end();
    await ended;
  }
}

/** Hosts on one switch, each with an address in 10.77.0.0/24 and fd77::/64. The switch is a host too, `10.77.0.1`. */
export class HostNetwork implements AsyncDisposable {
  readonly hub: NetworkHost;
  readonly #hosts: NetworkHost[] = [];

  private constructor(hub: NetworkHost) {
    this.hub = hub;
    this.#hosts.push(hub);
  }

  static async start(): Promise<HostNetwork> {
    const hub = await NetworkHost.start("hub");
    hub.run("ip", "link", "add", "lan", "type", "bridge");
    configure(hub, "lan", 1);
    return new HostNetwork(hub);
  }

  /** A host with the address `10.77.0.<number>`. */
  async add(name: string, number: number): Promise<NetworkHost> {
    const host = await this.addAlone(name);
    connect(this.hub, `to-${name}`, host, "eth0");
    this.hub.run("ip", "link", "set", `to-${name}`, "master", "lan", "up");
    configure(host, "eth0", number);
    return host;
  }

  /** A host with nothing but a loopback interface. */
  async addAlone(name: string): Promise<NetworkHost> {
    const host = await NetworkHost.start(name);
    this.#hosts.push(host);
    return host;
  }

  /** Puts `inner` behind NAT at `router`: `10.88.0.10` inside, the router's address outside. */
  hide(inner: NetworkHost, router: NetworkHost): void {
    connect(router, "inside", inner, "eth0");
    router.run("ip", "address", "add", "10.88.0.1/24", "dev", "inside");
    router.run("ip", "link", "set", "inside", "up");
    inner.run("ip", "address", "add", "10.88.0.10/24", "dev", "eth0");
    inner.run("ip", "link", "set", "eth0", "up");
    inner.run("ip", "route", "add", "default", "via", "10.88.0.1");
    router.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward");
    router.run("iptables", "-t", "nat", "-A", "POSTROUTING", "-s", "10.88.0.0/24", "-o", "eth0", "-j", "MASQUERADE");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const host of this.#hosts) await host[Symbol.asyncDispose]();
  }
}

function connect(host: NetworkHost, name: string, other: NetworkHost, otherName: string): void {
  // The link needs pids of this machine's namespace, so a process of this namespace creates it.
  const [nsenter = "", ...rest] = host.networkLauncher;
  execFileSync(nsenter, [...rest, "ip", "link", "add", name, "type", "veth", "peer", "name", otherName, "netns", String(other.pid)]);
}

function configure(host: NetworkHost, device: string, number: number): void {
  host.run("ip", "address", "add", `10.77.0.${number}/24`, "dev", device);
  // Duplicate address detection would delay the first use.
  host.run("sh", "-c", `ip -6 address add fd77::${number}/64 dev ${device} nodad 2>/dev/null || true`);
  host.run("ip", "link", "set", device, "up");
}

/** The reason why this machine cannot create such hosts; undefined when it can. */
export function networkHostsSkipReason(): string | undefined {
  if (process.getuid?.() !== 0) return "needs root, to make network namespaces";
  for (const program of ["ip", "unshare", "nsenter", "hostname"]) {
    if (!hasProgram(program)) return `needs ${program}`;
  }
  try {
    execFileSync("unshare", ["--net", "--pid", "--uts", "--fork", "--mount-proc", "ip", "link", "add", "lan", "type", "bridge"], {
      stdio: "ignore",
    });
    return undefined;
  } catch {
    return "root may not make network namespaces here (a container without CAP_SYS_ADMIN, or a kernel without bridges)";
  }
}
