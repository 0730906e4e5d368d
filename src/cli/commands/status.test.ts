import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { CoralError } from "../../base/errors.ts";
import { agentStatusAnswer, hostAnswer, hostReport, statusAnswer } from "../answers.fixture.ts";
import { type FakeDaemon, World } from "../daemon.fixture.ts";

let world: World;
let colony: FakeDaemon;
beforeEach(async () => {
  world = await World.create();
  colony = await world.startColony();
  colony.tool("coral_get_status", statusAnswer());
});
afterEach(() => world[Symbol.asyncDispose]());

const notes = { completeness: { complete: false, notes: [{ kind: "agent-silent", message: "web-2 last reported 1m ago\u001b[5m" }] } };

describe("coral status", () => {
  it("prints the overview, with hints only on a terminal", async () => {
    const { code, stdout, stderr } = await world.coral("status");
    expect(code).toBe(0);
    expect(stderr).toBe("");
    expect(stdout).toBe(
      `shop  shop-dev-1a2b3c · dev · coral 0.1.0 · up 1h 2m

  agents    1 healthy, 1 degraded
  services  14
  store     128 MiB of 4.00 GiB
  endpoint  https://127.0.0.1:9000

  HOST   HEALTH    CPU  CORES  MEM        OF  LOAD  SAMPLED
  web-2  degraded    -      -    -         -     -  -
  web-1  healthy   23%      8  96%  16.0 GiB  1.50  ${/SAMPLED\n.*\n.* {2}(\S+(?: ago)?)\n/.exec(stdout)?.[1]}

1 warning
  ! web-2 is degraded: it last reported 1m 3s ago
    fix: On web-2 run coral agent status
`,
    );
    expect((await world.coral("status", { terminal: 100 })).stderr).toContain("next: coral query host web-1");
    expect((await world.coral("status -q", { terminal: 100 })).stderr).toBe("");
  });

  it("prints one line for a colony without agents", async () => {
    const warnings = [{ kind: "no-agents" as const, message: "No agent has joined", fix: "Start one" }];
    colony.tool(
      "coral_get_status",
      statusAnswer({ agents: { total: 0, healthy: 0, degraded: 0, unhealthy: 0, connected: 0 }, hosts: [], warnings }),
    );
    const { stdout } = await world.coral("status");
    expect(stdout).toContain("agents    none");
    expect(stdout).not.toContain("HOST");
  });

  it("names the worst open incident on one line, and nothing without incidents", async () => {
    const since = new Date().toISOString();
    const worst = { id: "inc-7", severity: "critical", since, endedAt: null, service: "api", measure: "errors", now: 0.34 } as const;
    colony.tool("coral_get_status", statusAnswer({ incidents: { open: 1, worst } }));
    const [, line] = (await world.coral("status")).stdout.split("\n");
    expect(line).toMatch(/^1 open incident: api fails 34% (since|for) .* \(coral incidents show inc-7\)$/);
    colony.tool("coral_get_status", statusAnswer());
    expect((await world.coral("status")).stdout).not.toContain("incident");
  });

  it("shows first what needs attention", async () => {
    const reason = "GET /checkout fails 100% of 42 requests, was 0.20%";
    const attention = [
      { kind: "service" as const, subject: "shop", severity: "critical" as const, reason },
      { kind: "host" as const, subject: "web-1", severity: "degraded" as const, reason: "CPUs are busy 98% of the time" },
    ];
    colony.tool("coral_get_status", statusAnswer({ attention }));
    const lines = (await world.coral("status")).stdout.split("\n");
    expect(lines.slice(1, 6)).toEqual([
      "",
      "needs attention",
      `  critical  shop: ${reason}`,
      "  degraded  host web-1: CPUs are busy 98% of the time",
      '  "coral query summary shop" has the details',
    ]);
  });

  it("shows an agent with a slow link as slow, not as healthy", async () => {
    const { hosts } = statusAnswer();
    const slow = hosts
      .filter(({ agentId }) => agentId === "agent-a")
      .map((host) => ({ ...host, health: "degraded" as const, isSlow: true }));
    colony.tool(
      "coral_get_status",
      statusAnswer({ agents: { total: 1, healthy: 0, degraded: 1, unhealthy: 0, slow: 1, connected: 1 }, hosts: slow }),
    );
    const { stdout } = await world.coral("status");
    expect(stdout).toContain("agents    1 degraded (1 slow)\n");
    expect(stdout).toMatch(/web-1 +slow +23%/);
  });

  it("counts disconnected agents, whatever their health", async () => {
    colony.tool("coral_get_status", statusAnswer({ agents: { total: 5, healthy: 4, degraded: 0, unhealthy: 1, connected: 3 } }));
    expect((await world.coral("status")).stdout).toContain("agents    4 healthy, 1 unhealthy, 2 not connected\n");
  });

  it("prints the whole answer as JSON, YAML and CSV", async () => {
    const answer = statusAnswer();
    colony.tool("coral_get_status", { ...answer, ...notes });
    for (const flag of ["-o json", "--json"]) {
      const json = await world.coral(`status ${flag}`);
      expect(JSON.parse(json.stdout)).toEqual({ ...answer, ...notes });
      expect(json.stderr).toBe("");
    }
    const yaml = await world.coral("status -o yaml");
    expect(parse(yaml.stdout)).toEqual({ ...answer, ...notes });
    const csv = await world.coral("status -o csv");
    expect(csv.stdout.split("\n")[0]).toBe("hostname,agentId,health,cpuBusyRatio,cpuCount,memUsedRatio,memTotalBytes,load1m,sampledAt");
    expect(csv.stdout.split("\n")[2]).toContain("web-1,agent-a,healthy,0.234,8,0.961,17179869184,1.5,");
  });

  it("prints completeness notes, escaped, on stderr; not with -q", async () => {
    colony.tool("coral_get_status", { ...statusAnswer({ warnings: [] }), ...notes });
    expect((await world.coral("status")).stderr).toBe("note: web-2 last reported 1m ago\\x1b[5m\n");
    expect((await world.coral("status -q")).stderr).toBe("");
  });

  it("does not repeat the warnings of the page as notes", async () => {
    colony.tool("coral_get_status", { ...statusAnswer(), ...notes });
    expect((await world.coral("status")).stderr).toBe("");
    expect((await world.coral("status -o csv")).stderr).toContain("note: web-2");
  });

  it("colours on a terminal only", async () => {
    expect((await world.coral("status")).stdout).not.toContain("\u001b[");
    expect((await world.coral("status", { terminal: 100 })).stdout).toContain("\u001b[33mdegraded\u001b[39m");
    expect((await world.coral("status --no-color", { terminal: 100 })).stdout).not.toContain("\u001b[");
  });

  it("uses the colony that --colony or CORAL_COLONY names", async () => {
    for (const name of ["shop-dev", world.colonyId]) {
      expect((await world.coral(`status --colony ${name}`)).code).toBe(0);
      expect((await world.coral(`--colony ${name} status`)).code).toBe(0);
      expect((await world.coral("status", { env: { CORAL_COLONY: name } })).code).toBe(0);
    }
    const ran = await world.coral("status --colony shop-dv");
    expect(ran.code).toBe(4);
    expect(ran.stderr).toContain('did you mean "shop-dev"?');
  });
});

describe("--watch", () => {
  /** Runs until stdout has been written `rounds` times. */
  async function watch(args: string, rounds: number, terminal?: number, onRound?: (round: number) => void) {
    const stop = new AbortController();
    const writes: string[] = [];
    const ran = await world.coral(args, {
      signal: stop.signal,
      ...(terminal === undefined ? {} : { terminal }),
      onOutput: (text) => {
        writes.push(text);
        onRound?.(writes.length);
        if (writes.length === rounds) stop.abort();
      },
    });
    return { ...ran, writes };
  }

  it("redraws the terminal each time", async () => {
    const { code, writes } = await watch("status --watch 200ms", 3, 100);
    expect(code).toBe(0);
    expect(writes.every((text) => text.startsWith("\u001b[H\u001b[2J"))).toBe(true);
  });

  it("prints one JSON document per line and the CSV header once", async () => {
    const json = await watch("status -w 200ms -o json", 3);
    expect(
      json.stdout
        .trim()
        .split("\n")
        .map((line) => (JSON.parse(line) as { services: object }).services),
    ).toEqual([{ total: 14 }, { total: 14 }, { total: 14 }]);
    const csv = await watch("status -w 200ms -o csv", 2);
    expect(csv.stdout.match(/hostname,/g)).toHaveLength(1);
  });

  it("retries while the daemon does not respond, and exits on any other failure", async () => {
    let calls = 0;
    colony.replies.set("POST /v1/tools/coral_get_status", () => {
      calls++;
      if (calls === 2) throw new CoralError({ code: "unavailable", message: "Cannot answer: starting" });
      return statusAnswer();
    });
    const { code, stderr } = await watch("status -w 200ms", 2);
    expect(code).toBe(0);
    expect(stderr).toContain("note: Cannot answer: starting");
    colony.replies.set("POST /v1/tools/coral_get_status", () => {
      calls++;
      if (calls > 6) throw new CoralError({ code: "not-permitted", message: "Cannot see: no" });
      return statusAnswer();
    });
    expect((await watch("status -w 200ms", 50)).code).toBe(3);
  });
});

describe("coral colony status", () => {
  it("shows process, store and endpoints", async () => {
    const { stdout } = await world.coral("colony status");
    expect(stdout).toContain("Version:     v0.1.0, pid 4242\n");
    expect(stdout).toContain("Storage:     128 MiB of 4.00 GiB, 10.0 GiB free on the disk\n");
    expect(JSON.parse((await world.coral("colony status --json")).stdout)).toMatchObject({ colony: { pid: 4242 } });
  });
});

describe("coral query host", () => {
  it("shows findings first, then each resource", async () => {
    colony.tool("coral_query_host", hostAnswer());
    const { code, stdout } = await world.coral("query host web-1 --since 2h --limit 3");
    expect(code).toBe(0);
    expect(colony.calls.at(-1)?.body).toEqual({ agent: "web-1", since: "2h", limit: 3 });
    const lines = stdout.split("\n");
    expect(lines[1]).toBe("  critical: processes killed for lack of memory (OOM killer): 1");
    expect(stdout).toContain("  cpu        62%  ▁▂ █▅  avg 46% max 90%  user 50%");
    expect(stdout).toContain("3 listen overflows · 1 OOM kill\n");
    expect(stdout).toContain("    102  evil\\x1b[2Jname\\n   0.05");
    expect(stdout).toContain("    /       92%  4.00 GiB");
    expect(stdout).not.toContain("/data");
    expect(stdout).not.toContain("vdb");
    expect((await world.coral("query host -o wide")).stdout).toMatch(/vdb[\s\S]*\/data[\s\S]*\/user\.slice[\s\S]*\/usr\/lib\/postgres/);
  });

  it("keeps its lines within a narrow terminal", async () => {
    colony.tool("coral_query_host", hostAnswer());
    const { stdout } = await world.coral("query host", { terminal: 64, env: { NO_COLOR: "1" } });
    const metrics = stdout.split("\n").filter((line) => /^ {2}(cpu|load|memory|pressure)/.test(line));
    expect(metrics).toHaveLength(4);
    for (const line of metrics) expect(line.length).toBeLessThanOrEqual(64);
    expect(metrics[0]).toContain("max 90%  user 50% · system");
  });

  it("describes an idle host, a kernel without PSI, and a host without samples", async () => {
    const quiet = hostReport({
      findings: [],
      cgroups: [],
      disks: [],
      interfaces: [hostReport().interfaces[1]!],
      mounts: [hostReport().mounts[1]!],
    });
    quiet.latest = { ...quiet.latest!, psiCpuSomeRatio: null, psiMemorySomeRatio: null, psiIoSomeRatio: null, swapTotalBytes: 0 };
    const empty = hostReport({ hostname: "new", latest: null, sampledAt: null, findings: [] });
    colony.tool("coral_query_host", hostAnswer([quiet, empty]));
    const { stdout } = await world.coral("query host");
    expect(stdout).toContain("  disks    idle\n");
    expect(stdout).toContain("  mounts   1 mount, fullest /data at 1.0%\n");
    expect(stdout).toContain("  network  1 interface without errors, in 100 B/s, out 100 B/s\n");
    expect(stdout).not.toContain("pressure");
    expect(stdout).not.toContain("swap");
    expect(stdout).toContain("new  agent-a · healthy · last 5m\n  no samples in this period");
  });

  it("prints a row per host as CSV", async () => {
    colony.tool("coral_query_host", hostAnswer());
    const [head, row] = (await world.coral("query host -o csv")).stdout.split("\n");
    expect(head).toMatch(/^hostname,agentId,health,sampledAt,cpuBusyRatio,/);
    expect(row).toMatch(/^web-1,agent-a,healthy,.*,0\.62,.*"oom-kill,mount-space"$/);
  });
});

describe("coral agent status", () => {
  it("queries the agent directly", async () => {
    const agent = await world.startAgent();
    agent.replies.set("GET /v1/status", () =>
      agentStatusAnswer({
        colony: {
          id: null,
          endpoint: null,
          state: "refused",
          since: new Date().toISOString(),
          lastError: "Cannot join: the token has expired",
        },
        losses: [{ signal: "host", reason: "disk full", rows: 12 }],
        host: null,
      }),
    );
    const { code, stdout } = await world.coral("agent status");
    expect(code).toBe(0);
    expect(stdout).toContain("Status: ❌ Running (refused by its colony)\n");
    expect(stdout).toContain(
      "  Connected:    ❌ No, refused (now)\n  Reason:       Cannot join: the token has expired\n  Colony:       none yet\n",
    );
    expect(stdout).toContain("! 12 rows of host lost: disk full");
    expect(stdout).toContain("❌ ebpf: needs CAP_BPF and CAP_PERFMON");
    expect(JSON.parse((await world.coral("agent status --json")).stdout)).toMatchObject({ agentId: "agent-a", host: null });
    expect((await world.coral("agent status -o csv")).stdout).toContain("agent-a,web-1,refused,");
  });

  it("shows attached hooks, their cost and their losses", async () => {
    const agent = await world.startAgent();
    agent.replies.set("GET /v1/status", () =>
      agentStatusAnswer({
        traffic: {
          state: "on",
          hooks: "sockets",
          scope: "pid-namespace",
          reason: null,
          fix: null,
          tls: [
            { path: "/usr/lib/libssl.so.3", library: "openssl", processes: 3, problem: null },
            { path: "/opt/app", library: "go", processes: 1, problem: "no symbols" },
          ],
          step: 1,
          cost: {
            bpfCpuRatio: 0.012,
            processCpuRatio: 0.004,
            processRssBytes: 50 * 1024 ** 2,
            mapBytes: 8 * 1024 ** 2,
            requestsPerSecond: 1_250,
          },
          losses: [{ loss: "ring-full", count: 12 }],
          pid: 78,
          restarts: 1,
          lastEnd: "SIGKILL",
        },
      }),
    );
    const { stdout } = await world.coral("agent status");
    expect(stdout).toContain("  requests   on, socket tracepoints, less detail (step 1), 1250 requests/s, 1 restart, last: SIGKILL\n");
    expect(stdout).toContain(
      "kernel programs 1.2% of a core, traffic process cpu 0.4% of a core, 50.0 MiB memory, 8.00 MiB kernel tables\n",
    );
    expect(stdout).toContain("TLS read in 1 file of 3 processes, 1 file not readable\n               /opt/app: no symbols\n");
    expect(stdout).toContain("scope: own pid namespace, requests of other containers are not seen; fix: hostPID: true");
    expect(stdout).toContain("lost since start: 12 ring-full\n");
  });

  it("shows why hooks are off, with the fix", async () => {
    const agent = await world.startAgent();
    agent.replies.set("GET /v1/status", () =>
      agentStatusAnswer({
        traffic: {
          ...{ state: "off", hooks: "off", reason: "CAP_BPF is missing", fix: "run it as root", tls: [], step: 0, cost: null, losses: [] },
          ...{ pid: null, restarts: 0, lastEnd: null },
        },
      }),
    );
    expect((await world.coral("agent status")).stdout).toContain(
      "  requests   off\n             CAP_BPF is missing\n             fix: run it as root\n",
    );
  });
});
