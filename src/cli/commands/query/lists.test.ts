import { describe, expect, it } from "vitest";
import { formatToken } from "../../../transport/index.ts";
import { agentInfo } from "../../answers.fixture.ts";
import { useColony } from "../../daemon.fixture.ts";

const here = useColony();

describe("coral agent list", () => {
  const agents = [
    agentInfo(),
    agentInfo({
      hostname: "web-2",
      agentId: "agent-b",
      health: "unhealthy",
      healthReason: "silent",
      connected: false,
      lastContactAgoMs: null,
      pullLagMs: null,
    }),
  ];

  it("prints a table, passes filters on, and prints a note for no rows", async () => {
    here.colony.tool("coral_list_agents", { total: 2, agents });
    const { stdout } = await here.world.coral("agent list web --health unhealthy");
    expect(here.colony.calls[0]?.body).toEqual({ verbose: false, limit: 1_000, match: "web", health: "unhealthy" });
    expect(stdout).toBe(
      `HOST   AGENT    HEALTH     RUNTIME  MODE  CONNECTED  LAST CONTACT  LAG  VERSION  REASON
web-1  agent-a  healthy    unknown  -     yes        4s ago         1s  0.1.0    -
web-2  agent-b  unhealthy  unknown  -     no         never           -  0.1.0    silent
`,
    );
    here.colony.tool("coral_list_agents", { total: 0, agents: [] });
    const none = await here.world.coral("agent list");
    expect(none).toMatchObject({ code: 0, stdout: "" });
    expect(none.stderr).toContain('create a token for another host with "coral colony token create"');
    expect((await here.world.coral("agent list -o json")).stdout).toContain('"agents": []');
    expect((await here.world.coral("agent list -o csv")).stdout).toMatch(/^hostname,agentId,[^\n]*\n$/);
  });

  it("shows a page of each agent with --verbose, and the columns with -o wide", async () => {
    here.colony.tool("coral_list_agents", { total: 1, agents: [{ ...agentInfo(), details: agentInfo() }] });
    const verbose = await here.world.coral("agent list --verbose");
    expect(here.colony.calls[0]?.body).toMatchObject({ verbose: true });
    expect(verbose.stdout).toContain("Platform:     Debian 12 x64");
    expect(verbose.stdout).toContain("Labels:       zone=eu-1,tier=web");
    expect(verbose.stdout).toContain("Cannot:       ebpf: needs CAP_BPF");
    expect((await here.world.coral("agent list -o wide", { terminal: 60, env: { NO_COLOR: "1" } })).stdout).toContain(
      "Debian 12  6.1.0   x64",
    );
  });
});

describe("coral events", () => {
  it("prints newest first with local time, and a note for no rows", async () => {
    const at = new Date().toISOString();
    here.colony.tool("coral_list_events", {
      events: [
        { at, kind: "agent-joined", severity: "warning", agentId: "a", service: null, message: "web-1 joined\u0007", details: { x: 1 } },
      ],
    });
    const { stdout } = await here.world.coral("events --since 2d --kind agent-joined --agent a --service api --limit 5");
    expect(here.colony.calls[0]?.body).toEqual({ since: "2d", kind: "agent-joined", agent: "a", service: "api", limit: 5 });
    expect(stdout).toMatch(
      /^TIME {6}SEVERITY {2}KIND {10}AGENT {2}SERVICE {2}MESSAGE\n\d\d:\d\d:\d\d {2}warning {3}agent-joined {2}a {6}- {8}web-1 joined\\x07\n$/,
    );
    expect((await here.world.coral("events -o csv")).stdout).toContain(`${at},warning,agent-joined,a,,`);
    here.colony.tool("coral_list_events", { events: [] });
    expect((await here.world.coral("events")).stderr).toBe("No events in the last 1h; look further back with --since\n");
  });
});

describe("coral query sql", () => {
  const result = {
    columns: [
      { name: "host", type: "VARCHAR" },
      { name: "n", type: "BIGINT" },
      { name: "list", type: "INTEGER[]" },
    ],
    rows: [
      ["web-1", 5, [1, 2]],
      [null, "9007199254740993", null],
    ],
    truncated: false,
    elapsedMs: 12.4,
    views: ["host"],
  };

  it("prints typed columns, NULL as NULL, and the time on stderr", async () => {
    here.colony.tool("coral_query_sql", result);
    const ran = await here.world.coral(["query", "sql", "SELECT 1", "--max-rows", "10", "--timeout", "2s"]);
    expect(here.colony.calls[0]?.body).toEqual({ sql: "SELECT 1", maxRows: 10, timeout: "2s" });
    expect(ran.stdout).toBe("host                  n  list\nweb-1                 5  [1,2]\nNULL   9007199254740993  NULL\n");
    expect(ran.stderr).toBe("2 rows in 12 ms\n");
    expect((await here.world.coral(["query", "sql", "x", "-o", "csv"])).stdout).toBe('host,n,list\nweb-1,5,"[1,2]"\n,9007199254740993,\n');
  });

  it("reads the statement from stdin and rejects an empty one", async () => {
    here.colony.tool("coral_query_sql", result);
    await here.world.coral("query sql -", { stdin: "SELECT 2\n" });
    await here.world.coral("query sql", { stdin: "SELECT 3" });
    expect(here.colony.calls.map((call) => (call.body as { sql: string }).sql)).toEqual(["SELECT 2\n", "SELECT 3"]);
    expect(await here.world.coral("query sql", { stdin: " " })).toMatchObject({ code: 64 });
  });
});

describe("coral tool", () => {
  it("lists and calls tools with JSON from the line or stdin", async () => {
    const tool = {
      name: "coral_get_status",
      title: "t",
      description: "Overview",
      permission: "read",
      changes: false,
      inputSchema: { properties: { since: {} } },
      outputSchema: {},
    };
    here.colony.replies.set("GET /v1/tools", () => ({ tools: [tool] }));
    expect((await here.world.coral("tool list")).stdout).toContain("coral_get_status  read        no       since  Overview");
    here.colony.tool("coral_get_status", { a: 1 });
    const called = await here.world.coral(["tool", "call", "coral_get_status", '{"x":1}']);
    expect(JSON.parse(called.stdout)).toMatchObject({ a: 1 });
    await here.world.coral(["tool", "call", "coral_get_status", "-"], { stdin: '{"y":2}' });
    await here.world.coral("tool call coral_get_status");
    expect(here.colony.calls.slice(1).map((call) => call.body)).toEqual([{ x: 1 }, { y: 2 }, {}]);
    expect((await here.world.coral("tool call coral_get_status -o yaml")).stdout).toContain("a: 1\n");
  });

  it.each([
    [["tool", "call", "coral_x", "{"], "Cannot read the input as JSON"],
    [["tool", "call", "coral_x", "[1]"], "a tool takes a JSON object"],
    [["tool", "call", "../x"], 'Cannot call tool "../x"'],
  ])("%j is a usage error", async (args, message) => {
    const ran = await here.world.coral(args);
    expect(ran.code).toBe(64);
    expect(ran.stderr).toContain(message);
    expect(here.colony.calls).toEqual([]);
  });
});

describe("coral colony token and agent revoke", () => {
  const token = {
    tokenId: "t1",
    kind: "join",
    name: "ci",
    permission: null,
    createdAt: new Date().toISOString(),
    expiresAt: new Date(Date.now() + 2 * 86_400_000 + 60_000).toISOString(),
    usesLeft: 1,
    state: "usable",
  };

  it("create prints the token alone on stdout", async () => {
    here.colony.tool("coral_create_token", { ...token, token: "coral_join_abc" });
    const made = await here.world.coral(["colony", "token", "create", "--ttl", "1h", "--uses", "3", "--note", "roll out"]);
    expect(here.colony.calls[0]?.body).toEqual({ kind: "join", name: "roll out", uses: 3, validFor: "1h" });
    expect(made.stdout).toBe("coral_join_abc\n");
    expect(made.stderr).toContain("CORAL_JOIN_TOKEN=<token> coral agent start --daemon");
    await here.world.coral("colony token create --kind user --permission admin");
    expect(here.colony.calls[1]?.body).toEqual({ kind: "user", name: "", permission: "admin", validFor: "24h" });
    const json = await here.world.coral("colony token create --json");
    expect(JSON.parse(json.stdout)).toMatchObject({ token: "coral_join_abc" });
    expect(json.stderr).toBe("");
  });

  it("create warns when other hosts cannot use the token", async () => {
    const parts = { kind: "join", colonyId: "c", caFingerprint: "a".repeat(64), tokenId: "t1", secret: "s" } as const;
    const warningFor = async (...endpoints: string[]): Promise<string> => {
      here.colony.tool("coral_create_token", { ...token, token: formatToken({ ...parts, endpoints }) });
      return (await here.world.coral("colony token create")).stderr;
    };
    expect(await warningFor("127.0.0.1:9000")).toContain("this token works on this machine only");
    expect(await warningFor("10.0.0.7:9000", "127.0.0.1:9000")).not.toContain("this machine only");
  });

  it("list never shows a secret; revoke prints the id", async () => {
    here.colony.tool("coral_list_tokens", {
      tokens: [token, { ...token, tokenId: "t2", kind: "user", permission: "read", usesLeft: null, state: "revoked" }],
    });
    expect((await here.world.coral("colony token list")).stdout).toBe(
      `TOKEN ID  KIND  PERMISSION  STATE    USES LEFT  EXPIRES  NOTE
t1        join  -           usable           1  in 2d    ci
t2        user  read        revoked  unlimited  in 2d    ci
`,
    );
    here.colony.tool("coral_revoke_token", { tokenId: "t1", revokedAt: "x" });
    expect((await here.world.coral("colony token revoke t1")).stdout).toBe("token t1 revoked\n");
    here.colony.tool("coral_revoke_agent", { agentId: "agent-a", hostname: "web-1", revokedAt: "x" });
    expect((await here.world.coral("agent revoke web-1")).stdout).toContain("agent agent-a revoked");
    expect(here.colony.calls.at(-1)?.body).toEqual({ agent: "web-1" });
  });
});
