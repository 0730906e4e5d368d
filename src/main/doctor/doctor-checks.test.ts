import { chmodSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { DoctorCheck } from "../../cli/index.ts";
import type { Listener } from "../../host/index.ts";
import { describeDaemon } from "./daemon-checks.ts";
import { describeBpf, describeScope } from "./ebpf-checks.ts";
import { checkCgroups, checkListeners, checkPressure, checkProcesses } from "./host-checks.ts";
import { checkPorts, describePort } from "./port-checks.ts";
import { checkClock, checkMemory, checkNode, checkPlatform, checkRuntime } from "./runtime-checks.ts";
import { checkHome, checkSocketLength } from "./storage-checks.ts";

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "coral-doctor-test-"));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

const dayMs = 86_400_000;
const none = { someUs: null, fullUs: null };
const some = { someUs: 1, fullUs: 1 };
const nginx: Listener = {
  service: "nginx",
  namedBy: "executable",
  address: "0.0.0.0",
  port: 9000,
  networkNamespace: 1,
  pid: 42,
  startTicks: 1,
  exe: "/usr/sbin/nginx",
  userId: 0,
  cgroup: null,
  containerId: null,
};
const address = { host: "127.0.0.1", port: 9000 };

describe("single checks", () => {
  it.each<[string, DoctorCheck, DoctorCheck["state"], RegExp]>([
    ["a new Node", checkNode("22.1.0"), "ok", /22\.1\.0/],
    ["the oldest Node", checkNode("20.19.0"), "ok", /20\.19/],
    ["an old Node", checkNode("20.18.3"), "unavailable", /20\.18/],
    ["Linux", checkPlatform("linux", "arm64"), "ok", /arm64/],
    ["macOS", checkPlatform("darwin", "arm64"), "unavailable", /darwin/],
    ["much memory", checkMemory(2 ** 31, 2 ** 33), "ok", /2\.00 GiB available of 8\.00 GiB/],
    ["little memory", checkMemory(2 ** 28, 2 ** 29), "degraded", /256 MiB/],
    ["a sane clock", checkClock(10 * dayMs, 9 * dayMs), "ok", /1970-01-11/],
    ["a clock an hour behind", checkClock(10 * dayMs, 10 * dayMs + 3_600_000), "ok", /1970/],
    ["a clock a year behind", checkClock(10 * dayMs, 375 * dayMs), "degraded", /before this program was built/],
    ["readable processes", checkProcesses(0, 80, false, ["CAP_SYS_PTRACE"]), "ok", /80 seen/],
    ["unreadable processes", checkProcesses(7, 80, false, ["CAP_SYS_PTRACE"]), "degraded", /of 7 cannot be read.*CAP_SYS_PTRACE/],
    ["processes unreadable for root", checkProcesses(1, 80, false, []), "ok", /1 is unreadable/],
    ["hidden processes", checkProcesses(0, 3, true, []), "degraded", /hidepid/],
    [
      "sockets without process",
      checkListeners({ listeners: [nginx], deniedProcesses: 1, withoutProcess: 1, cut: 0 }, ["CAP_SYS_PTRACE"]),
      "degraded",
      /1 of 1/,
    ],
    ["cgroup v2", checkCgroups({ version: "v2", controllers: ["cpu", "cpuacct", "memory"] }), "ok", /^v2/],
    ["cgroup v2 without memory", checkCgroups({ version: "v2", controllers: ["cpuacct"] }), "degraded", /^v2/],
    ["no cgroups", checkCgroups({ version: "none", controllers: [] }), "degraded", /none/],
    ["PSI", checkPressure({ cpu: some, memory: some, io: some }), "ok", /cpu/],
    ["no PSI", checkPressure({ cpu: some, memory: none, io: none }), "degraded", /not provided/],
    ["a free port", describePort({ name: "x", address, daemonPid: undefined }, [], true), "ok", /is free$/],
    ["port 0", describePort({ name: "x", address: { host: "::1", port: 0 }, daemonPid: undefined }, [], true), "ok", /any free port/],
    [
      "a port in use by another process",
      describePort({ name: "x", address, daemonPid: undefined }, [nginx], false),
      "degraded",
      /nginx \(pid 42\)/,
    ],
    [
      "a port in use by the daemon",
      describePort({ name: "x", address, daemonPid: 42 }, [nginx], false),
      "ok",
      /in use by the daemon, pid 42/,
    ],
    [
      "the daemon's port in use by another process",
      describePort({ name: "x", address, daemonPid: 7 }, [nginx], false),
      "degraded",
      /nginx/,
    ],
    [
      "a port in use by an unknown process",
      describePort({ name: "x", address, daemonPid: undefined }, [], false),
      "degraded",
      /is unavailable/,
    ],
    ["a stopped daemon", describeDaemon("agent", undefined), "ok", /not running/],
  ])("judge %s", (_name, check, state, detail) => {
    expect(check.state).toBe(state);
    expect(check.detail).toMatch(detail);
    expect(check.fix === undefined).toBe(state === "ok");
  });
});

describe("checkHome()", () => {
  it("accepts a private home and one that does not exist yet", () => {
    chmodSync(home, 0o700);
    expect(checkHome(home)).toMatchObject({ state: "ok" });
    expect(checkHome(join(home, "a", "b"))).toMatchObject({ state: "ok", detail: expect.stringContaining("will be created") });
  });

  it("reports a home that is accessible to other users", () => {
    chmodSync(home, 0o755);
    expect(checkHome(home)).toMatchObject({ state: "degraded", fix: `chmod 700 "${home}"` });
  });

  it("reports a home below a file", () => {
    expect(checkHome("/dev/null/coral")).toMatchObject({ state: "unavailable" });
  });
});

describe("checkSocketLength()", () => {
  it("reports a home whose socket paths are too long", async () => {
    const deep = join(home, "x".repeat(90));
    mkdirSync(deep);
    expect(await checkSocketLength(home)).toMatchObject({ state: "ok" });
    expect(await checkSocketLength(deep)).toMatchObject({ state: "unavailable", fix: expect.stringContaining("shorter") });
  });
});

describe("describeScope()", () => {
  it("names the scope, and how to widen it", () => {
    expect(describeScope({ inode: 4_026_531_836, isFirst: true })).toMatchObject({ state: "ok", detail: "whole host" });
    expect(describeScope(null).state).toBe("ok");
    const nested = describeScope({ inode: 4_026_532_201, isFirst: false });
    expect(nested).toMatchObject({ state: "degraded", detail: "own pid namespace, requests of other containers are not seen" });
    expect(nested.fix).toContain("--pid=host");
  });
});

describe("describeBpf()", () => {
  const ability = { name: "raw_tp", needed: true, available: false, reason: "not permitted", fix: "run as root" } as const;

  it("stops at the first missing prerequisite", () => {
    expect(describeBpf({ hasObjects: false, hasBtf: false, abilities: [ability] }).map(({ name }) => name)).toEqual(["programs"]);
    expect(describeBpf({ hasObjects: true, hasBtf: false, abilities: [ability] }).map(({ name }) => name)).toEqual(["programs", "libbpf"]);
  });

  it("merges abilities with the same reason", () => {
    const other = { ...ability, name: "perf_event" } as const;
    const checks = describeBpf({ hasObjects: true, libbpfVersion: "v1.1", hasBtf: true, abilities: [ability, other] });
    expect(checks.slice(3)).toEqual([
      { area: "ebpf", name: "every hook", state: "unavailable", detail: "not permitted", fix: "run as root" },
    ]);
  });

  it("distinguishes needed abilities from alternatives", () => {
    const kprobe = { name: "kprobe", needed: false, available: false, reason: "no" } as const;
    const checks = describeBpf({ hasObjects: true, libbpfVersion: "v1.1", hasBtf: true, abilities: [ability, kprobe] });
    expect(checks.find(({ name }) => name === "raw_tp")).toMatchObject({ state: "unavailable", fix: "run as root" });
    expect(checks.find(({ name }) => name === "kprobe")).toMatchObject({ state: "degraded", detail: "no" });
  });
});

describe("on this machine", () => {
  it("checkRuntime() makes a native call", async () => {
    const checks = await checkRuntime();
    expect(checks.find(({ name }) => name === "native calls")).toMatchObject({ state: "ok" });
  });

  it("checkPorts() finds who has the agent's port", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    const { port } = server.address() as { port: number };
    process.env["CORAL_AGENT_LISTEN"] = `127.0.0.1:${port}`;
    try {
      const agent = (await checkPorts(home)).find(({ name }) => name === "port of agent");
      expect(agent).toMatchObject({ state: "degraded", detail: expect.stringContaining(`pid ${process.pid}`) });
    } finally {
      delete process.env["CORAL_AGENT_LISTEN"];
      server.close();
    }
  });
});
