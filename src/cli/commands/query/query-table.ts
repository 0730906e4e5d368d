import { trafficProtocols } from "../../../model/protocols.ts";
import type { CommandSpec, OptionSpec } from "../../run/command-spec.ts";
import { agentOption, dataOutput, serviceOption, sinceOption, watchedOutput } from "../shared-options.ts";

const peerOption: OptionSpec = {
  name: "peer",
  value: "name",
  description: "Only with this other end: a service, a name outside or an address",
  completes: "services",
};
const roleOption: OptionSpec = {
  name: "role",
  value: "role",
  description: "What the service answered (server) or asked (client)",
  choices: ["server", "client"],
};

export const queryCommands: readonly CommandSpec[] = [
  {
    name: "summary",
    summary: "Say how services are, the worst first and why; with a name, one in full",
    description:
      "Health by rules that docs/summary.md lists. BEFORE is the hour before, YESTERDAY the hour around this time of yesterday. One in full: since when, routes, who asks it and whom it asks, its hosts, what is new in its log, what happened.",
    arguments: [{ name: "service", description: "One in full; default: all services", required: false, completes: "services" }],
    options: [sinceOption("5m"), { name: "limit", value: "n", description: "Most services shown", default: "20" }, ...watchedOutput],
    examples: [
      ["coral query summary", "what is wrong right now"],
      ["coral query summary api", "one service in full"],
      ["coral query summary api --since 1h -o json", "for scripts and assistants"],
    ],
    load: () => import("./query-summary.ts"),
  },
  {
    name: "deployments",
    summary: "List new builds of services, and what changed with each: latency, errors, CPU, memory, new calls and errors",
    description:
      "Noticed by themselves when a process starts with another build or version; each is compared with the time before for half an hour.",
    arguments: [{ name: "service", description: "In full; default: all services, one line each", required: false, completes: "services" }],
    options: [sinceOption("1d"), { name: "limit", value: "n", description: "Most deployments shown", default: "20" }, ...watchedOutput],
    examples: [
      ["coral query deployments", "of the last day"],
      ["coral query deployments api --since 7d", "of one service, with every change"],
      ["coral deploy mark api --version 1.4.2", "tell of one that cannot be seen"],
    ],
    load: () => import("./query-deployments.ts"),
  },
  {
    name: "red",
    summary: "Show rate, errors and durations of requests: HTTP, gRPC, SQL, Redis, DNS and more",
    description:
      "QUEUE is the time from arrival to being read by the server, SERVICE TIME what it then takes, both on average. P95 is yellow when it is twice that of the time before.",
    arguments: [{ name: "service", description: "Its routes; default: all services", required: false, completes: "services" }],
    options: [
      {
        name: "by",
        value: "what",
        description: "One line per service, route, peer or status; default: service, with a service route",
        choices: ["service", "route", "peer", "status"],
      },
      { name: "route", value: "text", description: "Only routes and statements that hold this text" },
      peerOption,
      {
        name: "protocol",
        value: "protocol",
        description: "Only this protocol",
        choices: trafficProtocols,
      },
      roleOption,
      agentOption,
      sinceOption("5m"),
      { name: "limit", value: "n", description: "Most lines shown", default: "50" },
      ...watchedOutput,
    ],
    examples: [
      ["coral query red", "all services"],
      ["coral query red api", "the routes of one"],
      ["coral query red api --by peer --role client", "whom it asks, and how long they take"],
      ["coral query red api --by status --since 1h", "its answers by status"],
      ["coral query red --protocol postgres --by route", "the statements of all databases"],
    ],
    load: () => import("./query-red.ts"),
  },
  {
    name: "connections",
    summary: "Show connections of services: open, opened, failed, bytes, round trip, retransmits",
    arguments: [{ name: "service", description: "Default: all services", required: false, completes: "services" }],
    options: [
      peerOption,
      roleOption,
      agentOption,
      sinceOption("5m"),
      { name: "limit", value: "n", description: "Most lines shown", default: "50" },
      ...watchedOutput,
    ],
    examples: [
      ["coral query connections", "of all services"],
      ["coral query connections api --role client", "whom api calls"],
    ],
    load: () => import("./query-connections.ts"),
  },
  {
    name: "traces",
    summary: "Search traces, or draw one as a waterfall with its critical path",
    description:
      "A trace is listed when one of its spans fits all that is given. Of one trace: SELF is the time in which no child of the span ran, * marks the spans that decided how long it took.",
    arguments: [{ name: "service", description: "With a span of this service; default: all", required: false, completes: "services" }],
    options: [
      { name: "min-duration", value: "duration", description: "Only with a span of at least this duration: 250ms, 2s" },
      { name: "error", description: "Only with a span that failed" },
      { name: "route", value: "text", description: "Only with a span whose route, name, path or statement holds this text" },
      { name: "trace-id", value: "id", description: "One whole trace: 32 hex digits, or a traceparent header" },
      { name: "details", description: "Of one trace: also attributes, events and links of its spans" },
      sinceOption("1h"),
      agentOption,
      { name: "sort", value: "order", description: "Which come first", choices: ["newest", "slowest"], default: "newest" },
      { name: "limit", value: "n", description: "Most traces listed (default 20), or lines of one trace (default 200)" },
      ...watchedOutput,
    ],
    examples: [
      ["coral query traces api --min-duration 500ms", "slow ones"],
      ["coral query traces --error --route /checkout", "failed ones of one route"],
      ["coral query traces --trace-id 4bf92f3577b34da6a3ce929d0e0e4736", "one as a waterfall"],
      ["coral query traces --trace-id 4bf92f3577b34da6a3ce929d0e0e4736 --details", "with what its spans carry"],
    ],
    load: () => import("./query-traces.ts"),
  },
  {
    name: "logs",
    summary: "Show log records: by service, severity, text, pattern or trace",
    description: "The newest records, oldest of them first. With --by pattern one line per template, most frequent first.",
    arguments: [{ name: "service", description: "Default: all services", required: false, completes: "services" }],
    options: [
      {
        name: "level",
        value: "level",
        description: "At least this severe",
        choices: ["trace", "debug", "info", "warn", "error", "fatal"],
      },
      { name: "grep", value: "text", description: "Only with this text in body or attributes, in any case; /expression/ is a regular one" },
      { name: "pattern", value: "id", description: "Only of this pattern: its id, or a text of its template" },
      { name: "trace-id", value: "id", description: "Only of this trace: 32 hex digits" },
      { name: "by", value: "what", description: "One line per record or per pattern", choices: ["record", "pattern"], default: "record" },
      agentOption,
      sinceOption("15m"),
      { name: "limit", value: "n", description: "Most lines shown", default: "50" },
      { name: "page", value: "next", description: "Older records: what the note under a full page says" },
      ...watchedOutput,
    ],
    examples: [
      ["coral query logs api --level warn", "what went wrong lately"],
      ["coral query logs api --by pattern --since 1h", "what it says most"],
      ["coral query logs --grep 'connection refused'", "everywhere"],
      ["coral query logs --trace-id 4bf92f3577b34da6a3ce929d0e0e4736", "all records of one trace"],
    ],
    load: () => import("./query-logs.ts"),
  },
  {
    name: "metrics",
    summary: "Show metrics that programs send: rates of counters, values of gauges, percentiles of histograms",
    description: "Without a name it lists the metrics. Units are the sender's; metrics of one name with different units are never added.",
    arguments: [{ name: "name", description: "Of a metric, or a part of it; default: list all", required: false }],
    options: [
      serviceOption,
      {
        name: "by",
        value: "attribute",
        description: "One line per value of an attribute, or per service, instance or agent",
        default: "service",
      },
      agentOption,
      sinceOption("1h"),
      { name: "step", value: "duration", description: "Length of one part of the course; default: what fits the terminal" },
      { name: "limit", value: "n", description: "Most lines shown", default: "50" },
      ...watchedOutput,
    ],
    examples: [
      ["coral query metrics", "which there are"],
      ["coral query metrics http.server.request.duration --by http.route", "percentiles by route"],
      ["coral query metrics process.memory.usage --service api --since 6h", "one service"],
    ],
    load: () => import("./query-metrics.ts"),
  },
  {
    name: "promql",
    summary: "Evaluate a PromQL expression over the metrics that programs send",
    description:
      'Names may be written as Prometheus would (http_server_request_duration_seconds_bucket) or as sent ({"http.server.request.duration_count"}). There are selectors, ranges, offset, rate and its kin, functions over time, aggregations, histogram_quantile, arithmetic, comparison and set operators; no subqueries, no @, no group_left.',
    arguments: [{ name: "expression", description: "In quotes; - or nothing reads it from stdin", required: false }],
    options: [
      agentOption,
      sinceOption("1h"),
      { name: "step", value: "duration", description: "Between points; default: what fits the terminal" },
      { name: "limit", value: "n", description: "Most series shown", default: "50" },
      ...watchedOutput,
    ],
    examples: [
      ["coral query promql 'sum by (service) (rate(http_requests_total[5m]))'", "requests per second"],
      [
        "coral query promql 'histogram_quantile(0.95, sum by (le, service) (rate(http_server_request_duration_seconds_bucket[5m])))'",
        "p95",
      ],
    ],
    load: () => import("./query-promql.ts"),
  },
  {
    name: "host",
    summary: "Show the health of hosts: CPU, memory, pressure, disks, network, processes",
    arguments: [{ name: "agent", description: "Agent id or host name; default: the busiest hosts", required: false, completes: "agents" }],
    options: [sinceOption("5m"), { name: "limit", value: "n", description: "Most hosts shown", default: "5" }, ...watchedOutput],
    examples: [
      ["coral query host", "the busiest hosts now"],
      ["coral query host web-1 --since 2h", "one host over two hours"],
      ["coral query host web-1 --watch", "live"],
    ],
    load: () => import("./query-host.ts"),
  },
  {
    name: "sql",
    summary: "Run a read-only SQL query over the stored signals",
    description: "SHOW TABLES lists the views, DESCRIBE <view> its columns.",
    arguments: [{ name: "statement", description: "One SELECT; - or nothing reads it from stdin", required: false }],
    options: [
      { name: "max-rows", value: "n", description: "Most rows returned", default: "200" },
      { name: "timeout", value: "duration", description: "Longest run", default: "10s" },
      ...watchedOutput,
    ],
    examples: [
      ['coral query sql "SHOW TABLES"', "what there is"],
      ['coral query sql "SELECT time, cpu_busy_ratio FROM host ORDER BY time DESC LIMIT 20"', "the newest samples"],
      ["coral query sql - -o csv < report.sql > report.csv", "for a spreadsheet"],
    ],
    load: () => import("./query-sql.ts"),
  },
];

export const toolCommands: readonly CommandSpec[] = [
  { name: "list", summary: "List the tools", options: dataOutput, load: () => import("../mcp/tool-list.ts") },
  {
    name: "call",
    summary: "Call a tool and print its answer as JSON",
    arguments: [
      { name: "name", description: "As coral tool list shows it", required: true, completes: "tools" },
      { name: "input", description: "JSON object; - reads it from stdin; default {}", required: false },
    ],
    options: dataOutput.map((option) => (option.name === "output" ? { ...option, choices: ["json", "yaml"], default: "json" } : option)),
    examples: [['coral tool call coral_query_host \'{"since":"1h"}\'', "the same as coral query host --since 1h -o json"]],
    load: () => import("../mcp/tool-call.ts"),
  },
];

export const mcpCommands: readonly CommandSpec[] = [
  {
    name: "proxy",
    summary: "Speak MCP on stdin and stdout, for an assistant that starts this command",
    options: [{ name: "allow-changes", description: "Offer also the tools that change something" }],
    load: () => import("../mcp/mcp-proxy.ts"),
  },
  {
    name: "config",
    summary: "Print the block to paste into an assistant's settings",
    arguments: [
      {
        name: "client",
        description: "The assistant",
        required: true,
        choices: ["claude-desktop", "claude-code", "cursor", "vscode", "codex"],
      },
    ],
    load: () => import("../mcp/mcp-config.ts"),
  },
];
