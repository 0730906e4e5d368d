import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { CoralError } from "../../base/errors.ts";
import { loadAgentConfig } from "../agent/agent-config.ts";
import { loadColonyConfig } from "../colony/colony-config.ts";

let home: string;
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "coral-config-"));
});
afterEach(() => rm(home, { recursive: true, force: true }));

async function agentError(content: string | Uint8Array): Promise<CoralError> {
  const file = join(home, "agent.yaml");
  await writeFile(file, content);
  const error = await loadAgentConfig({ home, file, env: {} }).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof CoralError)) throw new Error("expected a CoralError");
  expect(error.code).toBe("invalid");
  return error;
}

/** The message without the part that holds the temporary directory. */
async function messageOf(content: string | Uint8Array): Promise<string> {
  const { message } = await agentError(content);
  const head = `Cannot read agent config "${join(home, "agent.yaml")}": `;
  expect(message.startsWith(head)).toBe(true);
  return message.slice(head.length);
}

describe("loadAgentConfig() reports position and fix", () => {
  const cases: [name: string, content: string, message: string][] = [
    [
      "an unknown key",
      "log:\n  levl: info\n",
      'line 2, column 3: unknown key "log.levl"; did you mean "log.level"? allowed keys: level, format',
    ],
    [
      "a key in the wrong section",
      "interval: 5s\n",
      'line 1, column 1: unknown key "interval"; did you mean "host.interval"? allowed keys: colony, listen, labels, log, store, host, runtime, exec, service_discovery, traffic, profiles, otlp, scrape, logs, health_checks',
    ],
    ["a key similar to none", "log:\n  zzzzzz: 1\n", 'line 2, column 3: unknown key "log.zzzzzz"; allowed keys: level, format'],
    [
      "a value outside the list",
      "# note\nlog:\n  level: loud\n",
      'line 3, column 10: log.level is "loud"; allowed values: debug, info, warn, error',
    ],
    [
      "a typo in a listed value",
      "log: { level: inof }",
      'line 1, column 15: log.level is "inof"; did you mean "info"? allowed values: debug, info, warn, error',
    ],
    [
      "a duration without a unit",
      "host:\n  interval: 15\n",
      "line 2, column 13: host.interval is 15; write a duration with a unit, such as 250ms, 30s, 5m, 2h or 7d",
    ],
    [
      "an invalid duration",
      "host:\n  interval: often\n",
      'line 2, column 13: host.interval is "often"; write a number with a unit, such as 250ms, 30s, 5m, 2h or 7d',
    ],
    [
      "a duration out of range",
      "host:\n  interval: 2h\n",
      'line 2, column 13: host.interval is "2h"; it must be at least 1s and at most 10m',
    ],
    [
      "a size with an unknown unit",
      "store:\n  memory: 64MB\n",
      'line 2, column 11: store.memory is "64MB"; write a number with a unit, such as 512B, 64KiB, 256MiB or 2GiB',
    ],
    ["a size below the minimum", "store:\n  memory: 1KiB\n", 'line 2, column 11: store.memory is "1KiB"; it must be at least 32.0 MiB'],
    [
      "a fractional number",
      "host:\n  top_processes: 1.5\n",
      "line 2, column 18: host.top_processes is 1.5; write a whole number from 0 to 100",
    ],
    [
      "a number out of range",
      "host:\n  top_processes: 101\n",
      "line 2, column 18: host.top_processes is 101; write a whole number from 0 to 100",
    ],
    ["a section that is a string", "log: info\n", 'line 1, column 6: log is "info"; write keys under it: level, format'],
    ["a section that is a list", "log:\n  - info\n", "line 2, column 3: log is a list; write keys under it: level, format"],
    ["a label that is a number", "labels:\n  rack: 7\n", "line 2, column 9: labels.rack is 7; write text; put the value in quotes"],
    [
      "a label with a bad name",
      "labels:\n  a b: x\n",
      'line 2, column 3: key "labels.a b" is not allowed: a label name has 1 to 63 letters, digits or any of _ . / -',
    ],
    ["labels that are a string", "labels: x\n", 'line 1, column 9: labels is "x"; write "name: value" lines under it'],
    [
      "a listen address without a port",
      "listen: localhost\n",
      'line 1, column 9: listen is "localhost"; write host:port with a port of 0 to 65535, such as 127.0.0.1:9000, [::1]:9000 or 9000',
    ],
    ["a tab", "log:\n\tlevel: info\n", "line 2, column 1: indent with spaces, not with tabs"],
    ["a duplicate key", "listen: 127.0.0.1:1\nlisten: 127.0.0.1:2\n", "line 2, column 1: duplicate key; keep one of them"],
    ["a second document", "listen: 127.0.0.1:1\n---\nlog: {}\n", "line 2, column 1: a second document starts here; keep one"],
    [
      "a file that is a string",
      "hello\n",
      'line 1, column 1: the file is "hello"; write keys under it: colony, listen, labels, log, store, host, runtime, exec, service_discovery, traffic, profiles, otlp, scrape, logs, health_checks',
    ],
  ];
  it.each(cases)("%s", async (_name, content, message) => {
    expect(await messageOf(content)).toBe(message);
  });

  it("counts further problems and lists all in the details, by line", async () => {
    const error = await agentError("log:\n  level: loud\nhost:\n  interval: 15\nfoo: 1\n");
    expect(error.message).toContain("(and 2 more;");
    const problems = error.details["problems"] as { line: number; key: string }[];
    expect(problems.map(({ line, key }) => [line, key])).toEqual([
      [2, "log.level"],
      [4, "host.interval"],
      [5, "foo"],
    ]);
  });

  it("never repeats the value of an unknown key, which may be a secret", async () => {
    expect(await messageOf("colony:\n  token: coral_join_secret\n")).not.toContain("secret");
  });

  it("shortens a long value", async () => {
    const message = await messageOf(`log:\n  level: ${"x".repeat(5000)}\n`);
    expect(message.length).toBeLessThan(250);
  });

  it("rejects a huge file, invalid UTF-8 and alias bombs", async () => {
    expect(await messageOf(`# ${"x".repeat(1024 * 1024)}\n`)).toMatch(/^it has \d+ bytes, more than the limit of 1048576/);
    expect(await messageOf(new Uint8Array([0xff, 0xfe, 0x00]))).toBe("it is not UTF-8 text");
    const bomb = [
      "a: &a [x,x,x,x,x,x,x,x,x]",
      ...["b", "c", "d", "e"].map((key, i) => `${key}: &${key} [${Array(9).fill(`*${"abcd"[i]}`).join(",")}]`),
    ].join("\n");
    expect(await messageOf(bomb)).toBe("it expands too many aliases");
  });
});

describe("loadAgentConfig()", () => {
  it("returns the defaults without a file, with an empty file and with empty sections", async () => {
    const absent = await loadAgentConfig({ home, env: {} });
    expect(absent.file).toBeUndefined();
    expect(absent.config).toEqual({
      colony: { id: undefined, endpoint: undefined, tokenFile: undefined },
      listen: { host: "127.0.0.1", port: 9001 },
      labels: {},
      log: { level: "info", format: "auto" },
      store: { maxSizeBytes: 512 * 1024 ** 2, maxSegmentBytes: 1024 ** 3, memoryBytes: 64 * 1024 ** 2 },
      host: { intervalMs: 15_000, topProcesses: 10 },
      exec: {
        profile: "diagnostics",
        rules: [],
        runAs: undefined,
        timeoutMs: 300_000,
        maxOutputBytes: 16 * 1024 ** 2,
        maxRunning: 16,
        limits: { memoryBytes: 512 * 1024 ** 2, cpus: 1, processes: 256 },
        recordings: { enabled: true, maxSizeBytes: 256 * 1024 ** 2, maxAgeMs: 30 * 86_400_000 },
        environmentAllow: ["*"],
        modelHosts: [],
        approvalTimeoutMs: 900_000,
      },
      runtime: {
        isReported: true,
        logsDetection: true,
        refreshIntervalMs: 300_000,
        refreshOnConfig: true,
        override: { runtimeType: "", sidecarMode: "" },
        targets: [],
      },
      serviceDiscovery: {
        enabled: true,
        methods: ["listening_sockets", "connection_tracking", "traffic_inspection"],
        scanIntervalMs: 30_000,
        protocols: ["tcp", "udp"],
        backend: "auto",
        trafficSources: ["http_host", "grpc_service"],
        names: { portMapping: {}, patterns: [], kubernetesLabel: "app" },
        network: { reportServiceIps: true, resolveExternalIps: true, detectCloudProviders: true },
        redaction: { names: [], patterns: [] },
        reportIntervalMs: 30_000,
        batchSize: 1_000,
      },
      // agent-traffic-config.test.ts has its defaults.
      traffic: absent.config.traffic,
      profiles: { enabled: true, hz: 19, intervalMs: 30_000, maxStacks: 4_000, cpuBudgetRatio: 0.005 },
      // otlp-config.test.ts has its defaults.
      otlp: absent.config.otlp,
      // agent-scrape-config.test.ts has its defaults.
      scrape: absent.config.scrape,
      logs: [],
      healthChecks: { intervalMs: 10_000, timeoutMs: 2_000, unhealthyAfter: 3, healthyAfter: 2 },
    });
    const file = join(home, "a.yaml");
    for (const content of ["", "# only a comment\n", "log:\nhost:\n", "\uFEFFlog: {}\r\n"]) {
      await writeFile(file, content);
      expect(await loadAgentConfig({ home, file, env: {} })).toEqual({ ...absent, file });
    }
  });

  it("prefers flags to environment to file to defaults", async () => {
    const file = join(home, "a.yaml");
    await writeFile(file, "log: { level: warn, format: json }\nlisten: 127.0.0.1:1\ncolony: { id: file-dev-000000 }\n");
    const { config } = await loadAgentConfig({
      home,
      file,
      env: { CORAL_LOG_LEVEL: "error", CORAL_AGENT_LISTEN: "127.0.0.1:2", CORAL_COLONY: "" },
      flags: { logLevel: "debug" },
    });
    expect(config.log).toEqual({ level: "debug", format: "json" });
    expect(config.listen.port).toBe(2);
    expect(config.colony.id).toBe("file-dev-000000");
  });

  it("names the flag or variable at fault, not the file", async () => {
    await expect(loadAgentConfig({ home, env: { CORAL_LOG_LEVEL: "loud" } })).rejects.toMatchObject({
      code: "usage",
      message: 'Cannot use CORAL_LOG_LEVEL: log.level is "loud"; allowed values: debug, info, warn, error',
    });
    await expect(loadAgentConfig({ home, env: { CORAL_LOG_LEVEL: "info" }, flags: { logLevel: "loud" } })).rejects.toMatchObject({
      message: 'Cannot use --log-level: log.level is "loud"; allowed values: debug, info, warn, error',
    });
  });

  it("reports a missing file if it was named", async () => {
    const file = join(home, "nowhere.yaml");
    await expect(loadAgentConfig({ home, file })).rejects.toMatchObject({
      code: "not-found",
      message: `Cannot read agent config "${file}": no such file`,
    });
  });
});

describe("loadColonyConfig()", () => {
  async function load(content: string, signals?: readonly string[]) {
    const file = join(home, "colony.yaml");
    await writeFile(file, content);
    return loadColonyConfig({ home, colonyId: "shop-dev-1a2b3c", file, env: {}, ...(signals ? { signals } : {}) });
  }

  it("requires only an id", async () => {
    const { config } = await load("id: shop-dev-1a2b3c\n");
    expect(config).toMatchObject({
      name: "shop-dev-1a2b3c",
      environment: "dev",
      listen: { host: "127.0.0.1", port: 9000 },
      advertise: [],
      pull: { intervalMs: 5_000, concurrency: 32, timeoutMs: 10_000, maxBatchBytes: 4 * 1024 ** 2 },
      health: { degradedAfterMs: 45_000, unhealthyAfterMs: 120_000 },
      certificates: { agentTtlMs: 86_400_000 },
      sql: { maxRows: 10_000, timeoutMs: 10_000 },
      retentionMs: {},
    });
    await expect(load("name: shop\n")).rejects.toThrow('line 1, column 1: key "id" is missing: The colony');
    await expect(load("")).rejects.toThrow('key "id" is missing');
  });

  it("reads retention per signal and reports unknown signals", async () => {
    const content = "id: a\nretention:\n  host: 7d\n  host_procss: 1h\n";
    expect((await load(content)).config.retentionMs).toEqual({ host: 7 * 86_400_000, host_procss: 3_600_000 });
    await expect(load(content, ["host", "host_process"])).rejects.toThrow(
      'line 4, column 3: unknown key "retention.host_procss"; did you mean "retention.host_process"? allowed keys: host, host_process',
    );
  });

  it("rejects health times in the wrong order and an id that is a path", async () => {
    await expect(load("id: a\nhealth:\n  degraded_after: 5m\n")).rejects.toThrow(
      "line 3, column 3: health.unhealthy_after has its default: it must be longer than health.degraded_after",
    );
    await expect(load("id: ../etc\n")).rejects.toThrow('line 1, column 5: id is "../etc"; a colony id holds');
    await expect(load("id: a\nadvertise: [colony:9000, nonsense]\n")).rejects.toThrow(
      'line 2, column 26: advertise.1 is "nonsense"; write host:port',
    );
  });
});
