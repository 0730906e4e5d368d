/**
 * CPU and memory of `coral up` on an idle host, next to netdata if apt has it: both observe the same host at the same time. CPU is that of the whole
 * process tree in kernel ticks, which is fair on a busy machine. As root it runs in its own namespaces, so that other processes of the machine are not
 * observed; otherwise, or with CORAL_BENCH_WHOLE_HOST=1, the whole host is observed.
 */

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { CoralHome } from "./lib/coral-process.ts";
import { type TreeUsage, treeUsageOf } from "./lib/process-usage.ts";
import { type Figure, figureOf, isSmall, report } from "./lib/report.ts";

/** Four pulls of the agent's samples; discovery's slowest step is every 30 s. */
const windowMs = isSmall ? 15_000 : 60_000;
const windows = isSmall ? 1 : 4;
const settleMs = isSmall ? 20_000 : 60_000;
const mebibyte = 1024 ** 2;
/** Set in the process that runs in its own namespaces. */
const aloneKey = "CORAL_BENCH_ALONE";

/** Where the Debian package installs it. */
const netdataFile = "/usr/sbin/netdata";

/** Why netdata is not available; empty if it is. */
function installNetdata(): string {
  if (existsSync(netdataFile)) return "";
  const { status, stderr } = spawnSync("apt-get", ["install", "-y", "--no-install-recommends", "netdata-core"], {
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive", RUNLEVEL: "1" },
    encoding: "utf8",
    timeout: 180_000,
  });
  if (status === 0 && existsSync(netdataFile)) return "";
  return `netdata cannot be installed by apt: ${stderr?.trim().split("\n").at(-1) ?? "there is no apt-get"}`;
}

/** Starts netdata in the foreground with its own directories; returns a string with the reason if it does not start. */
async function startNetdata(directory: string): Promise<ChildProcess | string> {
  const problem = installNetdata();
  if (problem !== "") return problem;
  for (const name of ["cache", "lib", "log"]) mkdirSync(join(directory, name), { recursive: true });
  const config = join(directory, "netdata.conf");
  const directories = `[directories]\n  cache = ${directory}/cache\n  lib = ${directory}/lib\n  log = ${directory}/log\n`;
  writeFileSync(config, `${directories}[web]\n  bind to = 127.0.0.1:0\n  mode = none\n[ml]\n  enabled = no\n`);
  const child = spawn(netdataFile, ["-D", "-c", config, "-u", "root"], { stdio: "ignore" });
  await sleep(3_000);
  return child.exitCode === null && child.signalCode === null ? child : `netdata exited with ${child.exitCode ?? child.signalCode}`;
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), 15_000);
  await ended;
  clearTimeout(timer);
}

function figuresOf(name: string, usages: readonly TreeUsage[], limits?: { cpu: number; rss: number }): Figure[] {
  const cpu = usages.slice(1).map((usage, window) => {
    const before = usages[window] ?? usage;
    return ((usage.cpuMs - before.cpuMs) / (usage.atMs - before.atMs)) * 100;
  });
  const target = (value: number | undefined) => (value === undefined ? undefined : { kind: "at-most" as const, value });
  return [
    figureOf(`${name}: CPU, of one core`, "%", cpu, target(limits?.cpu)),
    figureOf(
      `${name}: PSS of all processes`,
      "MiB",
      usages.slice(1).map(({ pssBytes }) => pssBytes / mebibyte),
    ),
    figureOf(
      `${name}: RSS, added up`,
      "MiB",
      usages.slice(1).map(({ rssBytes }) => rssBytes / mebibyte),
      target(limits?.rss),
    ),
  ];
}

const processes = (): number => readdirSync("/proc").filter((name) => /^\d+$/.test(name)).length;

/** Re-runs this benchmark in empty namespaces. Installs netdata first, because these have no network. */
function runAlone(): void {
  installNetdata();
  const namespaces = ["--pid", "--net", "--mount", "--fork", "--mount-proc", "--kill-child"];
  const env = { ...process.env, [aloneKey]: "1" };
  const command = [process.execPath, ...process.execArgv, process.argv[1] ?? ""];
  process.exitCode = spawnSync("unshare", [...namespaces, ...command], { env, stdio: "inherit" }).status ?? 1;
}

async function measure(): Promise<void> {
  using home = new CoralHome();
  await using coral = await home.start(["up", "--listen", "127.0.0.1:0"], () => home.run("status"));
  const netdata = await startNetdata(join(home.path, "netdata"));
  try {
    await sleep(settleMs);
    const read = (pid: number | undefined): TreeUsage[] => (pid === undefined ? [] : [treeUsageOf(pid)]);
    const netdataPid = typeof netdata === "string" ? undefined : netdata.pid;
    const [ours, theirs] = [read(coral.pid), read(netdataPid)];
    for (let window = 0; window < windows; window++) {
      await sleep(windowMs);
      ours.push(...read(coral.pid));
      theirs.push(...read(netdataPid));
    }
    coral.check();
    report({
      name: "idle-up",
      sizes: { windows, windowSeconds: windowMs / 1_000, settleSeconds: settleMs / 1_000, processes: processes() },
      figures: [...figuresOf("coral up", ours, { cpu: 1, rss: 160 }), ...(theirs.length > 0 ? figuresOf("netdata", theirs) : [])],
      notes: [
        `${processes()} processes ${process.env[aloneKey] === "1" ? "in namespaces of their own" : "on the host"}`,
        ...(typeof netdata === "string" ? [`without netdata: ${netdata}`] : []),
      ],
    });
  } finally {
    if (typeof netdata !== "string") await stop(netdata);
  }
}

if (process.env[aloneKey] === "1") spawnSync("ip", ["link", "set", "lo", "up"]);
const isWhole = process.getuid?.() !== 0 || process.env["CORAL_BENCH_WHOLE_HOST"] === "1" || process.env[aloneKey] === "1";
if (isWhole) await measure();
else runAlone();
