import { describe, expect, it, vi } from "vitest";
import { CoralError } from "../../../base/errors.ts";
import type { ConnectionRow } from "../../../model/connections.ts";
import type { CaptureEvent } from "../../../tools/index.ts";
import { useColony } from "../../daemon.fixture.ts";
import type { TerminalControl } from "../../output/cli-io.ts";
import { capturedRequest, captureEnd, captureStart, redResult, redRow, topResult, topRow } from "../../traffic.fixture.ts";

const here = useColony();

const widest = (text: string): number => Math.max(...text.split("\n").map((line) => line.length));

describe("coral query red", () => {
  it("prints a line per service with its rate trend, findings first", async () => {
    const rows = [
      redRow("api", { errors: 12, errorRatio: 0.001 }),
      redRow("web", { role: "client", isTls: true, tlsRequests: 12_300, queueMeanUs: null, serviceMeanUs: null }),
      redRow("both", { isTls: true, tlsRequests: 300 }),
    ];
    const finding = {
      rule: "error-share",
      severity: "warning",
      service: "api",
      subject: "",
      message: "api: bad",
      value: 1,
      threshold: 1,
      unit: "ratio",
    };
    here.colony.tool("coral_query_red", redResult(rows, { findings: [finding as never] }));
    const { code, stdout } = await here.world.coral("query red");
    expect(code).toBe(0);
    expect(stdout).toBe(
      [
        "Requests  last 5m by service · served 24,600 (82/s, <0.1% failed) · sent 12,300 (41/s, 0% failed)",
        "  warning: api: bad",
        "SERVICE  ROLE    PROTOCOL  REQ/S  ERRORS    P50    P95   P99  QUEUE  SERVICE TIME  RATE",
        "api      server  http         41    0.1%  950µs  4.2ms  13ms  120µs         1.3ms  ▁▂▅█",
        "web      client  https        41      0%  950µs  4.2ms  13ms      -             -  ▁▂▅█",
        "both     server  http(s)      41      0%  950µs  4.2ms  13ms  120µs         1.3ms  ▁▂▅█",
        "",
      ].join("\n"),
    );
    expect(here.colony.calls[0]?.body).toEqual({ since: "5m", points: 20 });
  });

  it("passes options on, and shows routes of one service without repeating its name", async () => {
    const rows = [
      redRow("api", { method: "GET", route: "/users/{id}" }),
      redRow("api", { protocol: "postgres", role: "client", method: "SELECT", route: "SELECT * FROM t WHERE id = ?" }),
    ];
    here.colony.tool("coral_query_red", redResult(rows, { by: "route", windowMs: 42_000, total: 7 }));
    const { stdout } = await here.world.coral(
      "query red api --peer web --route /u --protocol http --role server --by route --since 1h --limit 9 --agent web-1",
    );
    expect(here.colony.calls[0]?.body).toEqual({
      service: "api",
      peer: "web",
      route: "/u",
      protocol: "http",
      role: "server",
      by: "route",
      agent: "web-1",
      since: "1h",
      limit: 9,
      points: 20,
    });
    expect(stdout.split("\n").slice(0, 1)).toEqual(["api  last 5m by route, observed for 42s"]);
    expect(stdout).toContain("\nROUTE ");
    expect(stdout).toContain("GET /users/{id} ");
    expect(stdout).toContain("\nSELECT * FROM t WHERE id = ? ");
  });

  it.each([40, 60, 80, 100, 120, 200])("fits a terminal of %d cells", async (terminal) => {
    const rows = [redRow("api", { method: "GET", route: `/${"very-long/".repeat(20)}{id}` }), redRow("api", { method: "GET", route: "/" })];
    here.colony.tool("coral_query_red", redResult(rows, { by: "route" }));
    const { stdout } = await here.world.coral("query red api", { terminal, env: { NO_COLOR: "1" } });
    const lines = stdout.trimEnd().split("\n").slice(1);
    expect(lines).toHaveLength(3);
    expect(widest(lines.join("\n"))).toBeLessThanOrEqual(terminal);
    expect(stdout).not.toContain("\u001b[");
    expect(stdout).toContain("P95");
  });

  it("shows one row, no row and ten thousand", async () => {
    here.colony.tool("coral_query_red", {
      ...redResult([]),
      completeness: { complete: false, notes: [{ kind: "no-data", message: "no matching request was seen" }] },
    });
    expect(await here.world.coral("query red")).toEqual({ code: 0, stdout: "", stderr: "note: no matching request was seen\n" });
    here.colony.tool("coral_query_red", redResult(Array.from({ length: 10_000 }, (_, index) => redRow(`service-${index}`))));
    const { stdout } = await here.world.coral("query red --limit 10000", { terminal: 120 });
    expect(stdout.trimEnd().split("\n")).toHaveLength(10_002);
    expect(widest(stdout.split("\n").slice(2, 20).join("\n"))).toBeLessThanOrEqual(120);
  });

  it("exports every field as csv and json", async () => {
    here.colony.tool("coral_query_red", redResult([redRow("a,b", { status: "500", errorRatio: 0.5 })], { by: "status" }));
    const { stdout } = await here.world.coral("query red --by status -o csv");
    const [head, row] = stdout.split("\n");
    expect(head).toMatch(/^service,status,role,protocol,perSecond,errorRatio,p50Us,.*requests,errors,meanUs/);
    expect(row).toMatch(/^"a,b",500,server,http,41,0.5,950,/);
    expect(JSON.parse((await here.world.coral("query red --json")).stdout)).toMatchObject({ by: "status", rows: [{ status: "500" }] });
  });

  it("colours failures and slowdowns, on a terminal only", async () => {
    const row = redRow("api", { errorRatio: 0.2, before: { requests: 100, perSecond: 1, errorRatio: 0, p95Us: 1_000 } });
    here.colony.tool("coral_query_red", redResult([row]));
    const { stdout } = await here.world.coral("query red", { terminal: 120 });
    expect(stdout).toContain("\u001b[31m20%\u001b[39m");
    expect(stdout).toContain("\u001b[33m4.2ms\u001b[39m");
  });

  it("exits with 4 for a service that does not exist and 64 for an invalid choice", async () => {
    here.colony.replies.set("POST /v1/tools/coral_query_red", () => {
      throw new CoralError({ code: "not-found", message: 'Cannot find service "nope": no service has that name; known services: api' });
    });
    expect(await here.world.coral("query red nope")).toMatchObject({
      code: 4,
      stderr: expect.stringContaining("no service has that name; known services: api"),
    });
    expect((await here.world.coral("query red --by nothing")).code).toBe(64);
    expect((await here.world.coral("query red --since 5")).code).toBe(64);
  });
});

describe("coral query connections", () => {
  it("prints a line per peer and port", async () => {
    const row: ConnectionRow = {
      service: "api",
      role: "client",
      protocol: "tcp",
      peer: "db",
      peerAddress: "10.0.0.9",
      serverPort: 5432,
      open: 4,
      opened: 10,
      closed: 6,
      failed: 3,
      refused: 2,
      reset: 1,
      timedOut: 0,
      bytesSent: 1_024,
      bytesReceived: 2_048,
      rttUs: 180,
      retransmits: 0,
      lastSeenAt: new Date().toISOString(),
    };
    const outside = {
      ...row,
      role: "server" as const,
      peer: "203.0.113.9",
      peerAddress: "203.0.113.9",
      serverPort: 80,
      failed: 0,
      rttUs: null,
    };
    here.colony.tool("coral_query_connections", { sinceMs: 1, total: 2, connections: [row, outside] });
    const { stdout } = await here.world.coral("query connections api --role client");
    expect(here.colony.calls[0]?.body).toEqual({ service: "api", role: "client", since: "5m" });
    expect(stdout.split("\n")).toEqual([
      "SERVICE  ROLE    PEER         PROTOCOL    OPEN  OPENED  CLOSED                  FAILED      SENT  RECEIVED    RTT  RETRANSMITS",
      "api      client  db:5432      PostgreSQL     4      10       6  3 (2 refused, 1 reset)  1.00 KiB  2.00 KiB  180µs            0",
      "api      server  203.0.113.9  HTTP           4      10       6                       0  1.00 KiB  2.00 KiB      -            0",
      "",
    ]);
    here.colony.tool("coral_query_connections", { sinceMs: 1, total: 0, connections: [] });
    expect((await here.world.coral("query connections")).stderr).toContain("No matching connections in the last 5m");
  });
});

/** A terminal whose keys and size the test controls. */
class FakeTerminal implements TerminalControl {
  press: (key: string) => void = () => undefined;
  resize: () => void = () => undefined;
  isReading = false;

  readBytes(): () => void {
    return () => undefined;
  }

  readKeys(listener: (key: string) => void): () => void {
    this.press = listener;
    this.isReading = true;
    return () => {
      this.isReading = false;
    };
  }

  onResize(listener: () => void): () => void {
    this.resize = listener;
    return () => {
      this.resize = () => undefined;
    };
  }
}

describe("coral top", () => {
  const rows = [
    topRow("api"),
    topRow("batch", { role: null, protocols: [], perSecond: 0, p50Us: null, p95Us: null, p99Us: null, queueMeanUs: null, points: [] }),
  ];

  it("prints once where there is no terminal", async () => {
    here.colony.tool("coral_query_top", topResult(rows));
    const { code, stdout } = await here.world.coral("top --sort cpu");
    expect(code).toBe(0);
    expect(here.colony.calls[0]?.body).toEqual({ sort: "cpu", since: "1m", limit: 30, points: 12 });
    expect(stdout.split("\n")).toEqual([
      "2 services · 82 req/s · 0.2% errors · last 1m · by cpu",
      "",
      "SERVICE  REQ/S  ERRORS    P50    P95   P99  QUEUE  CPU   MEMORY  PROTOCOLS  RATE",
      "api         41    0.2%  950µs  4.2ms  13ms  120µs  52%  128 MiB  http       ▃▅█",
      "batch        0       -      -      -     -      -  52%  128 MiB  -          -",
      "",
    ]);
  });

  it("prints once on a terminal that cannot be drawn on", async () => {
    here.colony.tool("coral_query_top", topResult(rows));
    const { stdout } = await here.world.coral("top", { terminal: 100, control: new FakeTerminal(), env: { TERM: "dumb" } });
    expect(stdout).not.toContain("\u001b[");
  });

  it.each([40, 60, 80, 120])("fits a terminal of %d cells with --once", async (terminal) => {
    here.colony.tool("coral_query_top", topResult([topRow(`service-${"x".repeat(80)}`), ...rows]));
    const { stdout } = await here.world.coral("top --once", { terminal, env: { NO_COLOR: "1" } });
    expect(widest(stdout.split("\n").slice(2).join("\n"))).toBeLessThanOrEqual(terminal);
    expect(stdout).not.toContain("\u001b[?1049h");
  });

  it("redraws in place, sorts by key, follows resizes and restores the terminal", async () => {
    here.colony.tool("coral_query_top", topResult(rows));
    const control = new FakeTerminal();
    let screen = "";
    const listeners = process.listenerCount("SIGTERM");
    const running = here.world.coral("top", {
      terminal: 100,
      rows: 12,
      control,
      env: { NO_COLOR: "1" },
      onOutput: (text) => (screen += text),
    });
    await vi.waitFor(() => expect(screen).toContain("q quit"));
    expect(screen.startsWith("\u001b[?1049h\u001b[?25l\u001b[H")).toBe(true);
    expect(screen).toContain("coral top · shop-dev · ");
    expect(control.isReading).toBe(true);
    screen = "";
    control.resize();
    expect(screen.split("\r\n")).toHaveLength(12);
    control.press("p");
    await vi.waitFor(() => expect(here.colony.calls.at(-1)?.body).toMatchObject({ sort: "p95", limit: 12 }));
    await vi.waitFor(() => expect(screen).toContain("by p95"));
    control.press("\u001b[A");
    control.press("q");
    const { code, stdout } = await running;
    expect(code).toBe(0);
    expect(stdout.endsWith("\u001b[?25h\u001b[?1049l")).toBe(true);
    expect(control.isReading).toBe(false);
    expect(process.listenerCount("SIGTERM")).toBe(listeners);
  });

  it("retries while the colony does not respond, and restores the terminal on failure", async () => {
    here.colony.tool("coral_query_top", topResult(rows));
    const control = new FakeTerminal();
    let screen = "";
    const running = here.world.coral("top", { terminal: 100, rows: 12, control, onOutput: (text) => (screen += text) });
    await vi.waitFor(() => expect(screen).toContain("q quit"));
    const fail = (code: "unavailable" | "not-permitted") =>
      here.colony.replies.set("POST /v1/tools/coral_query_top", () => {
        throw new CoralError({ code, message: `it is ${code}` });
      });
    fail("unavailable");
    control.press("e");
    await vi.waitFor(() => expect(screen).toContain("it is unavailable"));
    fail("not-permitted");
    control.press("c");
    const { code, stdout, stderr } = await running;
    expect(code).toBe(3);
    expect(stdout.endsWith("\u001b[?25h\u001b[?1049l")).toBe(true);
    expect(stderr).toContain("it is not-permitted");
  });

  it("prints an error of the first call before switching to the alternate screen", async () => {
    here.colony.replies.set("POST /v1/tools/coral_query_top", () => {
      throw new CoralError({ code: "not-found", message: "nobody" });
    });
    const { code, stdout } = await here.world.coral("top", { terminal: 100, control: new FakeTerminal() });
    expect([code, stdout]).toEqual([4, ""]);
  });
});

describe("coral capture", () => {
  const serve = (events: readonly CaptureEvent[]): void => {
    here.colony.streams.set("POST /v1/captures", async function* () {
      yield* events;
    });
  };

  it("prints requests as they arrive, and a summary on stderr", async () => {
    serve([
      ...captureStart,
      { kind: "request", request: capturedRequest() },
      {
        kind: "request",
        request: capturedRequest({
          ...{ role: "client", method: "POST", target: "/pay\u001b[2J", status: "503", isError: true },
          ...{ peer: "payments", isTls: true },
        }),
      },
      captureEnd({ requests: 2, dropped: 5 }),
      { kind: "ended", requests: 2 },
    ]);
    const { code, stdout, stderr } = await here.world.coral(
      "capture api --route /u --status 2xx --min-duration 5ms --limit 10 --duration 3s --agent web-1",
    );
    expect(code).toBe(0);
    expect(here.colony.calls[0]?.body).toEqual({
      service: "api",
      route: "/u",
      status: "2xx",
      minDuration: "5ms",
      limit: 10,
      duration: "3s",
      agent: "web-1",
    });
    expect(stdout).toBe(
      "08:12:33.007  http      GET    /users/7?token=***  200    12ms  120 B → 3.40 KiB  10.0.0.5:41234 → api\n" +
        "08:12:33.007  http+tls  POST   /pay\\x1b[2J  503    12ms  120 B → 3.40 KiB  api → payments\n",
    );
    expect(stderr.split("\n")).toEqual([
      "watching 2 processes of api on web-1, at most 100 requests within 30s; Ctrl-C stops",
      "note: 5 requests of web-1 were dropped: they arrived faster than they could be printed",
      "2 requests captured",
      "",
    ]);
  });

  it("shows headers with -o wide, bodies with --body, and one object per line with -o json", async () => {
    serve([...captureStart, { kind: "request", request: capturedRequest() }, captureEnd()]);
    const { stdout } = await here.world.coral("capture api -o wide");
    expect(stdout.split("\n").slice(1)).toEqual([
      "    served · http · route /users/{id} · queue 200µs · first byte 11ms · pid 4242 on web-1 · 10.0.0.5:41234 → 10.0.0.1:8080",
      "    > host: api.example.com",
      "    < content-type: application/json",
      "",
    ]);
    const bodies = await here.world.coral("capture api --body");
    expect(here.colony.calls.at(-1)?.body).toMatchObject({ body: true });
    expect(bodies.stdout).toContain('    << {"name":"x",\n    << "password":"***"}\n');
    const json = await here.world.coral("capture api -o json");
    expect(
      json.stdout
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line) as unknown),
    ).toEqual([capturedRequest()]);
  });

  it("does not print the method of a statement or command twice", async () => {
    const of = (method: string, target: string): CaptureEvent => ({
      kind: "request",
      request: capturedRequest({ method, target, status: "" }),
    });
    serve([...captureStart, of("SELECT", "select * from t where id = ?"), of("GET", "GET"), captureEnd()]);
    const { stdout } = await here.world.coral("capture api");
    expect(stdout).toContain("  SELECT * from t where id = ?    -  ");
    expect(stdout).toContain("  GET        -  ");
  });

  it("fits narrow terminals", async () => {
    serve([...captureStart, { kind: "request", request: capturedRequest({ target: `/${"x".repeat(300)}` }) }, captureEnd()]);
    for (const terminal of [40, 80, 120]) {
      const { stdout } = await here.world.coral("capture api", { terminal, env: { NO_COLOR: "1" } });
      expect(widest(stdout)).toBeLessThanOrEqual(terminal);
      expect(stdout).toContain("200");
    }
  });

  it.each<[string, CaptureEvent[], number, string]>([
    ["nothing came", [...captureStart, captureEnd(), { kind: "ended", requests: 0 }], 4, "no matching request within 30s"],
    ["hooks are off", [captureEnd({ reason: "failed", problem: "no BTF", code: "unsupported" })], 2, "no BTF"],
    ["it is forbidden", [captureEnd({ reason: "failed", problem: "bodies are off", code: "not-permitted" })], 3, "bodies are off"],
    [
      "the agent disconnected",
      [...captureStart, captureEnd({ reason: "lost", problem: "the connection was lost", code: "unavailable" })],
      1,
      "the connection was lost",
    ],
  ])("explains an empty capture: %s", async (_what, events, code, message) => {
    serve(events);
    const ran = await here.world.coral("capture api");
    expect(ran).toMatchObject({ code, stdout: "", stderr: expect.stringContaining(message) });
  });

  it("maps the colony's errors to exit codes", async () => {
    for (const [code, exit] of [
      ["not-found", 4],
      ["unsupported", 2],
      ["not-permitted", 3],
      ["invalid", 64],
    ] as const) {
      here.colony.replies.set("POST /v1/captures", () => {
        throw new CoralError({ code, message: `Cannot: ${code}` });
      });
      expect(await here.world.coral("capture api")).toMatchObject({ code: exit, stderr: expect.stringContaining(`Cannot: ${code}`) });
    }
    expect((await here.world.coral("capture")).code).toBe(64);
    expect((await here.world.coral("capture api -o csv")).code).toBe(64);
  });

  it("ends the capture on a signal, and prints a summary", async () => {
    let left: (() => void) | undefined;
    const gone = new Promise<void>((resolve) => {
      left = resolve;
    });
    here.colony.streams.set("POST /v1/captures", async function* (_body, hungUp) {
      yield* captureStart;
      yield { kind: "request", request: capturedRequest() };
      await hungUp;
      left?.();
    });
    let printed = "";
    const running = here.world.coral("capture api", { onOutput: (text) => (printed += text) });
    await vi.waitFor(() => expect(printed).toContain("/users/7"));
    process.emit("SIGINT", "SIGINT");
    const { code, stderr } = await running;
    expect(code).toBe(0);
    expect(stderr).toContain("1 request captured");
    await gone;
  });

  it("reports a colony that stops responding during a capture", async () => {
    here.colony.streams.set("POST /v1/captures", async function* () {
      yield* captureStart;
      yield { kind: "error", error: { code: "unavailable", message: "the colony is stopping", details: {} } };
    });
    expect(await here.world.coral("capture api")).toMatchObject({ code: 1, stderr: expect.stringContaining("the colony is stopping") });
  });
});
