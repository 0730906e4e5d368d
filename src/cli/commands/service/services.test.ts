import { describe, expect, it } from "vitest";
import { agentStatusAnswer } from "../../answers.fixture.ts";
import { useColony } from "../../daemon.fixture.ts";
import { sampleServices, sampleTopology, serviceList, serviceOf, servicePlace, serviceProcess } from "../../network.fixture.ts";

const hostile = "evil\u001b[2J\n\u202ename";

const here = useColony();

describe("coral services", () => {
  it("lists one line per service", async () => {
    const [api] = sampleServices();
    here.colony.tool(
      "coral_list_services",
      serviceList([{ ...(api as NonNullable<typeof api>), check: "unhealthy" }, ...sampleServices().slice(1, 3)]),
    );
    const { stdout } = await here.world.coral("services --agent web-1");
    expect(here.colony.calls[0]?.body).toEqual({ limit: 10_000, agent: "web-1" });
    expect(stdout).toBe(`SERVICE   PORTS  INSTANCES  STATUS      HEALTH     HOSTS
api       8080           1  managed     unhealthy  hostname-api
frontend  3000           1  managed     -          hostname-web
postgres  5432           1  discovered  -          hostname-db
`);
    expect((await here.world.coral("services -o wide")).stdout).toContain("0.0.0.0:8080  101   0123456789ab  /app/api");
  });

  it("truncates long lists within a line, and shows them with -o wide", async () => {
    const places = Array.from({ length: 8 }, (_, index) => servicePlace({ hostname: `h${index}`, port: 9_000 + index }));
    here.colony.tool("coral_list_services", serviceList([serviceOf("many", places)]));
    expect((await here.world.coral("services")).stdout).toContain(
      "many     9000,9001,9002,9003,9004 +3          8  discovered  -       h0,h1,h2,h3,h4 +3\n",
    );
    expect((await here.world.coral("services -o wide")).stdout).toContain("h0,h1,h2,h3,h4,h5,h6,h7");
    expect((await here.world.coral("services -o csv")).stdout).toContain('"9000,9001,9002,9003,9004,9005,9006,9007"');
  });

  it("prints a note for no rows", async () => {
    here.colony.tool("coral_list_services", serviceList([]));
    expect(await here.world.coral("services")).toMatchObject({
      code: 0,
      stdout: "",
      stderr: expect.stringContaining("No services discovered yet"),
    });
    const none = await here.world.coral("services nope");
    expect(none).toMatchObject({ code: 4, stdout: "" });
    expect(none.stderr).toBe('error: Cannot find service "nope": no name contains it; "coral services" lists all\n');
  });

  it("lists services whose name contains the text, and shows a single match in full", async () => {
    const services = [serviceOf("api-one", [servicePlace()]), serviceOf("api-two", [servicePlace()])];
    here.colony.tool("coral_list_services", serviceList(services));
    expect((await here.world.coral("services api")).stdout).toContain("api-two");
    here.colony.tool("coral_list_services", serviceList(services.slice(0, 1)));
    here.colony.tool("coral_get_topology", { ...sampleTopology(), nodes: [], edges: [] });
    here.colony.tool("coral_list_events", { events: [] });
    expect((await here.world.coral("services api")).stdout).toMatch(/^api-one {2}discovered · 1 instance on 1 host\n/);
    here.colony.tool("coral_list_services", serviceList([{ ...services[0]!, aliases: ["till"] }, serviceOf("tiller", [servicePlace()])]));
    expect((await here.world.coral("services Till")).stdout).toMatch(/^api-one {2}discovered/);
  });
});

describe("coral services <name>", () => {
  const now = (): string => new Date().toISOString();

  function answer(name = "api"): void {
    const place = servicePlace({
      method: "manual",
      check: "healthy",
      instances: 2,
      processes: [serviceProcess(), serviceProcess({ pid: 102, containerName: "api-1", unit: null, health: "unhealthy" })],
    });
    const service = serviceOf(name, [place, servicePlace({ hostname: "closed", exe: null, build: null, addresses: ["10.0.0.9:8080"] })], {
      previousMethod: "listening_socket",
      check: "unhealthy",
      ingress: true,
    });
    here.colony.replies.set("POST /v1/tools/coral_list_services", () => ({
      ...serviceList([service]),
      completeness: { complete: false, notes: [{ kind: "agent-silent", message: "web-2 is silent" }] },
    }));
    const notes = [
      { kind: "agent-silent", message: "web-2 is silent" },
      { kind: "limit", message: "10 of 20 events" },
    ];
    here.colony.replies.set("POST /v1/tools/coral_get_topology", () => ({
      ...sampleTopology(),
      completeness: { complete: false, notes: [notes[0]] },
    }));
    here.colony.replies.set("POST /v1/tools/coral_list_events", () => ({
      events: [
        { at: now(), kind: "service-restarted", severity: "warning", agentId: "a", service: name, message: "pid 7 → 101", details: {} },
      ],
      completeness: { complete: false, notes },
    }));
  }

  it("shows instances, callers, calls and events", async () => {
    answer();
    const { stdout, stderr } = await here.world.coral("services api --since 30m --agent web-1");
    expect(here.colony.calls.slice(1).map(({ body }) => body)).toEqual([
      { service: "api", processes: true, limit: 1, agent: "web-1" },
      { service: "api", depth: 1, direction: "both", since: "30m", limit: 10_000, agent: "web-1" },
      { service: "api", since: "86400s", limit: 10, agent: "web-1" },
    ]);
    expect(
      stdout.replace(/\d\d:\d\d:\d\d/, "hh:mm:ss").replace(/last \d+s ago/, "last 12s ago"),
    ).toBe(`api  managed · unhealthy · 3 instances on 2 hosts
  ports     tcp 8080, tcp 8080
  name      by systemd-unit, confidence 0.85
  found     manual, before that listening_socket
  seen      first 3d ago, last 12s ago
  outside   external callers

Instances
  HOST          PID  STARTED  USER      HEALTH     LISTENS           BUILD         BINARY    UNIT         CONTAINER
  hostname-api  101  3d ago   www-data  healthy    tcp 0.0.0.0:8080  0123456789ab  /app/api  api.service  -
  hostname-api  102  3d ago   www-data  unhealthy  tcp 0.0.0.0:8080  0123456789ab  /app/api  -            api-1
  closed          -  -        -         -          10.0.0.9:8080     -             -         -            -

Called by
  ← lb-prod.example.com (203.0.113.42) [INGRESS, 1,245 conn/min, TCP 8080, confidence 0.7]
  ← frontend (10.100.0.7 +1)           [INTERNAL, 45 conn/min, HTTP]

Calls
  → s3.amazonaws.com (52.94.236.248:443 +1) [EGRESS, 2.1 conn/min, HTTPS]
  → postgres (10.100.0.8)                   [INTERNAL, 12 open, PostgreSQL]
  → [2001:db8::1]:9000                      [EGRESS, 1 seen, TCP 9000, confidence 0.5]

Recent events
  hh:mm:ss  warning  service-restarted  pid 7 → 101
`);
    // The note appears once, and older events are not mentioned.
    expect(stderr).toBe("note: web-2 is silent\n");
  });

  it("prints the whole report as JSON, and the processes as CSV", async () => {
    answer();
    const report = JSON.parse((await here.world.coral("services api -o json")).stdout) as Record<string, unknown>;
    expect(Object.keys(report)).toEqual(["service", "calledBy", "calls", "nodes", "events", "completeness"]);
    expect((await here.world.coral("services api -o csv")).stdout).toMatch(
      /^hostname,pid,startedAt,user,health,listens,build,exe,unit,container,.*\nhostname-api,101,/,
    );
    expect((await here.world.coral("services api -o wide")).stdout).toContain("/app/api --token [redacted]");
  });

  it("handles a service without calls and events, and escapes a hostile name", async () => {
    answer(hostile);
    here.colony.tool("coral_get_topology", { ...sampleTopology(), nodes: [], edges: [] });
    here.colony.tool("coral_list_events", { events: [] });
    const { stdout } = await here.world.coral(["services", "evil"]);
    expect(stdout).toContain("Called by\n  none in the last 1h\n\nCalls\n  none in the last 1h\n");
    expect(stdout).not.toContain("Recent events");
    expect(stdout.replaceAll("\n", "")).not.toMatch(/[\p{Cc}\u202e]/u);
  });
});

describe("coral connect", () => {
  const info = { health: null, type: null, connectedAt: "x", check: { state: "unknown", detail: "not checked yet", checkedAt: null } };

  it("prints the outcome for each service", async () => {
    const agent = await here.world.startAgent();
    const services = [
      { ...info, name: "postgres", port: 5432, outcome: "promoted", discovered: { name: "postgres", method: "listening_socket" } },
      { ...info, name: "api", port: 8080, outcome: "promoted", discovered: { name: "node\u0007", method: "listening_socket" } },
      { ...info, name: "later", port: 9, outcome: "registered", discovered: null },
      { ...info, name: "web", port: 3000, health: "/health", outcome: "updated", discovered: null },
      { ...info, name: "same", port: 1, outcome: "unchanged", discovered: null },
      { ...info, name: "dns", port: 53, type: "udp", outcome: "promoted", discovered: { name: "dns", method: "listening_socket" } },
    ];
    agent.replies.set("POST /v1/services", () => ({ services }));
    const ran = await here.world.coral("connect postgres:5432 api:8080:/health:http later:9");
    expect(agent.calls[0]).toEqual({
      route: "POST /v1/services",
      body: {
        services: [
          { name: "postgres", port: 5432 },
          { name: "api", port: 8080, health: "/health", type: "http" },
          { name: "later", port: 9 },
        ],
      },
    });
    expect(ran).toEqual({
      code: 0,
      stderr: "",
      stdout: `✓ Service 'postgres' promoted to managed
  Previously discovered via: listening_socket
  Now managed with health monitoring enabled
✓ Service 'api' promoted to managed
  Previously discovered via: listening_socket, as 'node\\x07'
  Now managed with health monitoring enabled
✓ Service 'later' registered as managed
  Nothing was discovered on port 9 yet
  Now managed with health monitoring enabled
✓ Service 'web' updated
  Health check: GET /health on port 3000
✓ Service 'same' is already managed
  Health: unknown (not checked yet)
✓ Service 'dns' promoted to managed
  Previously discovered via: listening_socket
  Now managed; UDP has no health check
`,
    });
    expect(JSON.parse((await here.world.coral("connect a:1 -o json")).stdout)).toEqual({ services });
    expect((await here.world.coral("connect a:1 -o csv")).stdout).toMatch(
      /^name,port,health,type,outcome,previousMethod\npostgres,5432,,,promoted,listening_socket\n/,
    );
  });

  it("accepts the long form", async () => {
    const agent = await here.world.startAgent();
    agent.replies.set("POST /v1/services", () => ({ services: [] }));
    await here.world.coral("connect frontend --port 3000 --health /health --type http");
    expect(agent.calls[0]?.body).toEqual({ services: [{ name: "frontend", port: 3000, health: "/health", type: "http" }] });
  });

  it.each([
    ["connect", "Missing argument <service>"],
    ["connect postgres", 'Cannot connect service "postgres": it has no port'],
    ["connect postgres:sql", '"sql" is not a port'],
    ["connect postgres:70000", "port 70000 is not between 1 and 65535"],
    ["connect a:1 b_:2", '"b_" is not a name'],
    ["connect a:1 b:1", 'Cannot connect service "b": port 1 is also used for "a"'],
    ["connect a:1 a:1", 'Cannot connect service "a": the name is used twice'],
    ["connect a --port x", 'Cannot use --port "x"'],
    ["connect a b --port 1", "Cannot use --port with several services"],
    ["connect a:1 --port 1", 'Cannot use --port with "a:1": it includes a port'],
    ["connect a:1 --health /", "Cannot use --health without --port"],
    ["connect a --port 1 --health health", '"health" is not a health path'],
  ])("rejects %j without a request to the agent", async (line, message) => {
    const agent = await here.world.startAgent();
    const ran = await here.world.coral(line);
    expect(ran.code).toBe(64);
    expect(ran.stderr).toContain(message);
    expect(agent.calls).toEqual([]);
  });

  it("names how to start the agent when there is none", async () => {
    const ran = await here.world.coral("connect a:1");
    expect(ran.code).toBe(1);
    expect(ran.stderr).toContain("Cannot reach the agent: none is running for CORAL_HOME");
    expect(ran.stderr).toContain('"coral agent start"');
  });
});

describe("coral disconnect", () => {
  it("disconnects all or none", async () => {
    const agent = await here.world.startAgent();
    agent.replies.set("GET /v1/services", () => ({ services: [{ name: "a.b" }, { name: "c" }] }));
    agent.replies.set("DELETE /v1/services/a.b", () => ({ name: "a.b", ports: [1, 2] }));
    agent.replies.set("DELETE /v1/services/c", () => ({ name: "c", ports: [3] }));
    const unknown = await here.world.coral("disconnect c d");
    expect(unknown).toMatchObject({ code: 4, stdout: "" });
    expect(unknown.stderr).toContain('Cannot disconnect service "d": not connected at the agent of this host; connected services: a.b, c');
    expect(agent.calls.filter(({ route }) => route.startsWith("DELETE"))).toEqual([]);
    const ran = await here.world.coral("disconnect c a.b c");
    expect(ran.stdout).toContain("✓ Service 'c' is no longer managed\n");
    expect(agent.calls.filter(({ route }) => route.startsWith("DELETE")).map(({ route }) => route)).toEqual([
      "DELETE /v1/services/c",
      "DELETE /v1/services/a.b",
    ]);
    expect((await here.world.coral("disconnect a.b -o csv")).stdout).toBe('name,ports\na.b,"1,2"\n');
  });
});

describe("coral agent status", () => {
  it("shows each service with port, process, build and health", async () => {
    const agent = await here.world.startAgent();
    const service = {
      name: "payment-service",
      port: 8080,
      protocol: "tcp",
      status: "managed" as const,
      method: "manual",
      confidence: 1,
      instances: 2,
      pid: 12345,
      exe: "/app/payment-service",
      build: "0123456789abcdef",
      check: { state: "healthy" as const, detail: "HTTP 200", checkedAt: null },
    };
    const items = [
      {
        ...service,
        name: "dns",
        port: 53,
        protocol: "udp",
        status: "discovered" as const,
        method: "listening_socket",
        confidence: 0.8,
        instances: 1,
        pid: null,
        exe: null,
        build: null,
        check: null,
      },
      service,
      {
        ...service,
        name: `gone${hostile}`,
        instances: 0,
        pid: null,
        exe: null,
        build: null,
        check: { state: "unhealthy" as const, detail: "connection refused", checkedAt: null },
      },
    ];
    agent.replies.set("GET /v1/status", () => agentStatusAnswer({ services: { total: 3, items } }));
    const { stdout } = await here.world.coral("agent status");
    expect(stdout).toContain("  services   3, 2 of them managed\n");
    expect(stdout).toContain(`
Services:
  payment-service
    Port:         8080
    PID:          12345 (and 1 more process)
    Binary:       /app/payment-service
    Build:        0123456789ab
    Status:       healthy
  goneevil\\x1b[2J\\n\\u202ename
    Port:         8080
    PID:          no process found
    Status:       unhealthy (connection refused)
  dns
    Port:         53/udp
    PID:          not readable
    Status:       discovered by listening_socket, name confidence 0.8
`);
  });

  it("shows the ports of one service together, and counts the omitted ones", async () => {
    const agent = await here.world.startAgent();
    const items = Array.from({ length: 30 }, (_, index) => ({
      name: `s${index}`,
      port: index,
      protocol: "tcp",
      status: "discovered" as const,
      method: "listening_socket",
      confidence: 0.7,
      instances: 1,
      pid: 1,
      exe: null,
      build: null,
      check: null,
    }));
    const same = items.slice(0, 10).map((item) => ({ ...item, name: "same", pid: item.port % 3 }));
    agent.replies.set("GET /v1/status", () => agentStatusAnswer({ services: { total: 10, items: same } }));
    expect((await here.world.coral("agent status")).stdout).toContain(
      "Services:\n  same\n    Port:         0, 1, 2, 3, 4, 5, 6, 7 +2\n    PID:          0 (and 2 more processes)\n",
    );
    agent.replies.set("GET /v1/status", () => agentStatusAnswer({ services: { total: 2_000, items } }));
    expect((await here.world.coral("agent status")).stdout).toContain("  … and 1,980 more services; -o wide shows them\n");
    expect((await here.world.coral("agent status -o wide")).stdout).toContain(
      "  … and 1,970 more services; coral network services has them\n",
    );
  });
});
