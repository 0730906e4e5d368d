import { existsSync, readFileSync } from "node:fs";
import { areObjectsBuilt, findClang } from "./bpf-objects.mjs";
import { isClangFormatInstalled } from "./clang-format.mjs";
import { SetupError, step } from "./report.mjs";
import { rootPrefix, run, which } from "./run.mjs";
import { readStamp, writeStamp } from "./stamps.mjs";

/**
 * @typedef {{ package: string, present: () => boolean, lost: string }} Need
 *   `lost` describes what does not work without it.
 */

/** Debian's name for this architecture in library paths. */
const multiarch = `${process.arch === "x64" ? "x86_64" : process.arch === "arm64" ? "aarch64" : process.arch}-linux-gnu`;
const libraryDirectories = ["/lib", "/usr/lib", "/usr/local/lib", "/lib64", "/usr/lib64", `/lib/${multiarch}`, `/usr/lib/${multiarch}`];

/** @type {Need[]} */
const runtimeNeeds = [
  { package: "clang", present: () => areObjectsBuilt() || findClang() !== undefined, lost: "eBPF programs cannot be compiled" },
  {
    package: "libbpf1",
    present: () => libraryDirectories.some((directory) => existsSync(`${directory}/libbpf.so.1`)),
    lost: "eBPF programs cannot be loaded",
  },
];

/** Under systemd, installing a server also starts it. Tests must not do that to a user's machine, so they are skipped there with a reason. */
const startsServers = existsSync("/run/systemd/system");

/**
 * A package with programs that tests start.
 * @param {string} name of the package
 * @param {string[]} programs that it must contain
 * @param {string} lost
 * @returns {Need}
 */
const program = (name, programs, lost) => ({ package: name, present: () => programs.every((path) => which(path) !== undefined), lost });

/**
 * A package with a server.
 * @param {Parameters<typeof program>} need
 * @returns {Need}
 */
const server = (...need) => {
  const { present, ...rest } = program(...need);
  return { ...rest, present: () => startsServers || present() };
};

/** @type {Need[]} */
const testNeeds = [
  program("iproute2", ["ip"], "tests with network namespaces are skipped"),
  program("iptables", ["iptables"], "tests with translated addresses are skipped"),
  {
    package: "libnginx-mod-stream",
    present: () => startsServers || (which("nginx") !== undefined && existsSync("/usr/lib/nginx/modules/ngx_stream_module.so")),
    lost: "tests with nginx are skipped",
  },
  server("redis-server", ["redis-server", "redis-benchmark"], "tests with Redis are skipped"),
  server("postgresql", ["postgres", "initdb", "pgbench", "psql"], "tests with Postgres are skipped"),
  server("mariadb-server", ["mariadbd", "mariadb"], "tests with MariaDB are skipped"),
  server("memcached", ["memcached"], "tests with memcached are skipped"),
  // The package "dnsmasq" would add a service.
  program("dnsmasq-base", ["dnsmasq"], "tests with DNS are skipped"),
  program("bind9-dnsutils", ["dig"], "tests with DNS are skipped"),
  server("haproxy", ["haproxy"], "tests with haproxy are skipped"),
  program("tcpdump", ["tcpdump"], "tests with tcpdump are skipped"),
  program("wrk", ["wrk"], "tests with load are skipped"),
  program("curl", ["curl"], "tests with curl are skipped"),
  program("openssl", ["openssl"], "tests with TLS are skipped"),
  program("python3", ["python3"], "tests with programs in Python are skipped"),
  program("golang-go", ["go"], "tests with programs in Go are skipped"),
  program("gcc", ["cc"], "tests with programs in C are skipped"),
  { package: "libc6-dev", present: () => existsSync("/usr/include/stdio.h"), lost: "tests with programs in C are skipped" },
  { package: "libssl-dev", present: () => existsSync("/usr/include/openssl/ssl.h"), lost: "tests with libssl in C are skipped" },
  program("binutils", ["readelf"], "some tests of programs' files are skipped"),
  { package: "clang-format", present: isClangFormatInstalled, lost: "the format of probes/ is not checked" },
  program("bpftool", ["bpftool"], "tests for BPF programs left in the kernel are skipped"),
  server("containerd", ["containerd", "runc"], "tests with containers are skipped"),
  { package: "busybox-static", present: () => existsSync("/bin/busybox"), lost: "tests with containers are skipped" },
  program("procps", ["ps", "top"], "some end-to-end tests are skipped"),
  program("vim", ["vim"], "a test of terminals is skipped"),
  program("zsh", ["zsh"], "tests of completion in zsh are skipped"),
  program("fish", ["fish"], "tests of completion in fish are skipped"),
];

const failureStamp = "build/stamps/system-packages";
const retryAfterMs = 60 * 60_000;

/**
 * @param {boolean} forTests
 * @returns {Need[]} packages that this machine lacks
 */
export function missingPackages(forTests) {
  return [...runtimeNeeds, ...(forTests ? testNeeds : [])].filter((need) => !need.present());
}

/**
 * Installs missing packages with apt if that needs no password; returns one line per package that stays missing.
 * A failure is remembered for an hour, so that a machine without network starts quickly.
 * @param {Need[]} missing
 * @param {boolean} force try again now
 * @returns {Promise<string[]>}
 */
export async function installPackages(missing, force) {
  if (missing.length === 0) return [];
  const names = missing.map((need) => need.package);
  /** @param {string} reason */
  const degraded = (reason) =>
    missing.filter((need) => !need.present()).map((need) => `${need.lost}: ${need.package} is missing and ${reason}`);
  const byHand = `sudo apt-get install ${names.join(" ")}`;

  const apt = which("apt-get");
  if (apt === undefined) return degraded(`this machine has no apt-get; install it with your package manager`);
  const prefix = rootPrefix();
  if (prefix === undefined) return degraded(`installing needs root; run: ${byHand}`);
  const [failedAt = "0", ...failedNames] = readStamp(failureStamp).split(" ");
  if (!force && failedNames.join(" ") === names.join(" ") && Date.now() - Number(failedAt) < retryAfterMs) {
    return degraded("apt-get failed recently; to try again: npm run setup -- --force");
  }
  try {
    await step(`system packages: ${names.join(", ")}`, () => aptInstall([...prefix, ...aptCommand(apt)], names));
    return degraded(`apt-get installed it without the needed files; run: ${byHand}`);
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    writeStamp(failureStamp, [Date.now(), ...names].join(" "));
    return degraded(`apt-get failed (${error.message}); run: ${byHand}`);
  }
}

/** @param {string} apt */
function aptCommand(apt) {
  return [
    "env",
    "DEBIAN_FRONTEND=noninteractive",
    "NEEDRESTART_MODE=l",
    "LC_ALL=C",
    apt,
    "-qq",
    "-y",
    "-o",
    "DPkg::Lock::Timeout=180",
    "-o",
    "Dpkg::Use-Pty=0",
    "-o",
    "Acquire::Retries=2",
    "-o",
    "Acquire::http::Timeout=30",
  ];
}

/**
 * Fetches package lists only if installing from the present ones fails, because that is slow.
 * @param {string[]} command
 * @param {string[]} names
 * @throws {SetupError} with apt's last error line
 */
async function aptInstall(command, names) {
  /** @param {string[]} args */
  const call = (args) => {
    const [program = "", ...rest] = command;
    return run(program, [...rest, ...args]);
  };
  const install = ["install", "--no-install-recommends", ...names];
  if ((await call(install)).code === 0) return;
  const update = await call(["update"]);
  let last = await call(install);
  if (last.code === 0) return;
  // One unknown name makes apt reject all of them, so install each one separately.
  for (const name of names) {
    const single = await call(["install", "--no-install-recommends", name]);
    if (single.code !== 0) last = single;
  }
  const lines = (update.code === 0 ? last.output : update.output).trim().split("\n");
  throw new SetupError(lines.filter((line) => line.startsWith("E:")).at(-1) ?? lines.at(-1) ?? "no message");
}

/**
 * Syscall tracepoints need tracefs, which small images do not mount.
 * @returns {Promise<string | undefined>} the remaining limitation
 */
export async function mountTracefs() {
  const target = "/sys/kernel/tracing";
  if (!existsSync(target) || /^\S+ \S+ tracefs /m.test(readFileSync("/proc/mounts", "utf8"))) return undefined;
  const byHand = `mount -t tracefs tracefs ${target}`;
  const prefix = rootPrefix();
  if (prefix === undefined) return `syscall tracepoints cannot be used: tracefs is not mounted; run: sudo ${byHand}`;
  const [program = "", ...args] = [...prefix, ...byHand.split(" ")];
  const { code, output } = await run(program, args);
  return code === 0 ? undefined : `syscall tracepoints cannot be used: tracefs cannot be mounted (${output.trim()})`;
}

/** @returns {string | undefined} the limitation of a user without the two eBPF capabilities */
export function missingCapabilities() {
  let effective;
  try {
    effective = BigInt(`0x${/^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1] ?? "0"}`);
  } catch {
    // No /proc: not Linux, so there is no eBPF.
    return undefined;
  }
  const has = (/** @type {bigint} */ bit) => ((effective >> bit) & 1n) === 1n;
  const names = { CAP_BPF: 39n, CAP_PERFMON: 38n };
  const lacking = has(21n)
    ? []
    : Object.entries(names)
        .filter(([, bit]) => !has(bit))
        .map(([name]) => name);
  return lacking.length === 0
    ? undefined
    : `eBPF is not allowed for this user: ${lacking.join(" and ")} missing; run as root, or see: coral doctor`;
}
