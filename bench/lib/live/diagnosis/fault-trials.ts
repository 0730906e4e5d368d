/** Faults that a diagnosis must explain, with the expected causes. */

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { liveFaults } from "../faults/fault-list.ts";
import { asTrial, type FaultTrial, type TrialWorld } from "./trial.ts";

const known = (name: string) => liveFaults.find((fault) => fault.name === name);

/** Drops a part of the packets to a loopback port. */
function losePackets({ world }: TrialWorld, action: "-I" | "-D"): void {
  const loss = ["-i", "lo", "-p", "tcp", "--dport", String(world.ports.postgres), "-m", "statistic", "--mode", "random"];
  execFileSync("iptables", ["-w", action, "INPUT", ...loss, "--probability", "0.15", "-j", "DROP"], { stdio: "ignore" });
}

const noPacketLoss = (): string | undefined => {
  try {
    execFileSync(
      "iptables",
      ["-w", "-C", "INPUT", "-p", "tcp", "-m", "statistic", "--mode", "random", "--probability", "0.1", "-j", "DROP"],
      {
        stdio: ["ignore", "ignore", "pipe"],
      },
    );
    return undefined;
  } catch (error) {
    // Status 1 is "no such rule", from an iptables that knows the match.
    const { status } = error as { status?: number };
    return status === 1 ? undefined : "iptables cannot lose packets here";
  }
};

const cpuLoads: ChildProcess[] = [];

function startCpuLoads(count: number, niceness: number): void {
  for (let one = 0; one < count; one++)
    cpuLoads.push(spawn("nice", ["-n", String(niceness), "python3", "-c", "while True: pass"], { stdio: "ignore" }));
}

export function stopCpuLoads(): void {
  for (const cpuLoad of cpuLoads.splice(0)) cpuLoad.kill("SIGKILL");
}

/** Changes a line of a program, and restarts its process. */
async function deploy({ world }: TrialWorld, role: "catalog" | "payments", change: (text: string) => string): Promise<void> {
  const file = join(world.directory, world.names[role], `${world.names[role]}.mjs`);
  writeFileSync(file, change(readFileSync(file, "utf8")));
  await world.program(role).restart();
}

export const unrelatedDeploy = (trial: TrialWorld, role: "catalog" | "payments"): Promise<void> =>
  deploy(trial, role, (text) => `${text}\n// release ${Date.now()}\n`);

const noDisk =
  (role: "orders" | "payments") =>
  (trial: TrialWorld): string | undefined =>
    trial.disks[role] === null ? "no loop device with a limit on writes" : undefined;

export const faultTrials: readonly FaultTrial[] = [
  asTrial(known("a function that burns CPU"), { kinds: ["hot-code", "slow-code"], pointers: ["GET /search"] }),
  asTrial(known("throttled at its CPU limit"), { kinds: ["cpu-limit"], pointers: ["limit of 0.02", "throttled"] }),
  asTrial(known("an index is gone"), { kinds: ["slow-statement"], pointers: ["FROM orders", "SELECT orders"] }),
  asTrial(known("a session holds locks"), { kinds: ["lock-wait"], pointers: ["UPDATE stock"] }),
  asTrial(known("leaks until the kernel kills it"), { kinds: ["out-of-memory"], pointers: ["memory"] }),
  {
    name: "a journal on a slow disk, under a lock",
    services: ["orders"],
    kinds: ["disk-wait"],
    pointers: ["loop", "disk"],
    skipReason: noDisk("orders"),
    inject: ({ disks }) => disks.orders?.limit(4),
    repair: ({ disks }) => disks.orders?.limit(null),
  },
  {
    name: "fsync on a throttled disk",
    services: ["payments"],
    kinds: ["disk-wait"],
    pointers: ["loop", "disk"],
    skipReason: noDisk("payments"),
    inject: ({ disks }) => disks.payments?.limit(6),
    repair: ({ disks }) => disks.payments?.limit(null),
  },
  {
    name: "a relay that holds bytes",
    services: ["edge"],
    kinds: ["slow", "slow-link", "waiting"],
    pointers: ["/v1/charges"],
    inject: ({ world }) => world.program("edge").behave({ holdMs: 120 }),
    repair: ({ world }) => world.program("edge").behave({}),
  },
  {
    name: "a slow name server",
    services: ["resolver"],
    kinds: ["slow", "waiting", "slow-dns"],
    pointers: ["provider.example"],
    inject: ({ world }) => world.program("resolver").behave({ holdMs: 250 }),
    repair: ({ world }) => world.program("resolver").behave({}),
  },
  asTrial(known("connections leak from a pool"), { kinds: ["pool-exhausted"], pointers: ["postgres", "connection"] }),
  asTrial(known("one route of two fails"), { kinds: ["failing"], pointers: ["POST /charge"] }),
  {
    name: "packets to the database are lost",
    services: ["postgres", "orders"],
    kinds: ["packet-loss", "slow-link"],
    pointers: ["retransmit", "lost"],
    skipReason: noPacketLoss,
    inject: (trial) => losePackets(trial, "-I"),
    repair: (trial) => losePackets(trial, "-D"),
  },
  {
    name: "a bad deployment with an unrelated one",
    services: ["payments"],
    kinds: ["failing", "bad-deploy"],
    pointers: ["GET /charges/"],
    inject: async (trial) => {
      await unrelatedDeploy(trial, "catalog");
      await deploy(trial, "payments", (text) => text.replace('state: "paid"', "state: undefined.paid"));
    },
    repair: (trial) => deploy(trial, "payments", (text) => text.replace("state: undefined.paid", 'state: "paid"')),
  },
  asTrial(known("a blocked event loop"), { kinds: ["blocked-thread", "hot-code"], pointers: ["event loop", "thread"] }),
  asTrial(known("a slow provider"), { kinds: ["slow", "external-dependency", "waiting"], pointers: ["POST /v1/charges"] }),
  asTrial(known("killed, with callers that fail"), { kinds: ["down"], pointers: ["no process", "ended"] }),
  {
    name: "a batch job takes every core",
    services: ["host"],
    kinds: ["host"],
    pointers: ["python"],
    inject: () => startCpuLoads(availableParallelism() * 6, 0),
    repair: stopCpuLoads,
  },
];

export { startCpuLoads };
