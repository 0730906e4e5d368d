/**
 * `coral query`: commands that read stored signals. Each calls one tool, from whose schema options, defaults and bounds come. A `fields`
 * entry here changes only how an option looks on the command line.
 */

import { trafficProtocols } from "../../../model/protocols.ts";
import type { CommandSpec } from "../../run/command-spec.ts";
import { toolCommand } from "../../run/tool-command.ts";
import { profileOutput, watchedOutput } from "../shared-options.ts";

const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";

export const queryCommands: readonly CommandSpec[] = [
  toolCommand({
    name: "summary",
    tool: "coral_query_summary",
    summary: "Show service health, worst first, with reasons; name a service for its full page",
    description:
      "docs/summary.md lists the health rules. BEFORE is the hour before, YESTERDAY the hour around this time yesterday. The full page adds when it started, routes, callers and callees, hosts, hot functions, new log patterns and events.",
    positional: ["service"],
    fields: { service: { description: "Show one service in full; default: all services" } },
    options: watchedOutput,
    examples: [
      ["coral query summary", "what is wrong right now"],
      ["coral query summary api", "one service in full"],
      ["coral query summary api --since 1h -o json", "for scripts and assistants"],
    ],
    load: () => import("./query-summary.ts"),
  }),
  toolCommand({
    name: "deployments",
    tool: "coral_query_deployments",
    summary: "List deployments and what changed with each: latency, errors, CPU, memory, new calls and errors",
    description:
      "Coral detects a new build or version of a service, shows the share of each build during a rollout, and compares the half hour after with the time before.",
    positional: ["service"],
    fields: { service: { description: "Show its deployments in full; default: all services, one line per deployment" } },
    options: watchedOutput,
    examples: [
      ["coral query deployments", "deployments of the last day"],
      ["coral query deployments api --since 7d", "one service, with every change"],
      ["coral deploy mark api --version 1.4.2", "report one that Coral cannot detect"],
    ],
    load: () => import("./query-deployments.ts"),
  }),
  toolCommand({
    name: "red",
    tool: "coral_query_red",
    summary: "Show request rate, errors and latency per service: HTTP, gRPC, SQL, Redis, DNS and more",
    description:
      "QUEUE is the mean time from arrival until the server reads the request, SERVICE TIME the mean time after that. P95 is yellow when it has doubled since the preceding window.",
    positional: ["service"],
    omit: ["points"],
    fields: {
      service: { description: "Show the routes of this service; default: all services" },
      protocol: {
        description: "Only this protocol",
        value: "protocol",
        choices: trafficProtocols,
      },
    },
    options: watchedOutput,
    examples: [
      ["coral query red", "all services"],
      ["coral query red api", "the routes of one service"],
      ["coral query red api --by peer --role client", "its calls by callee, with latency"],
      ["coral query red api --by status --since 1h", "its requests by status"],
      ["coral query red --protocol postgres --by route", "statements of all databases"],
    ],
    load: () => import("./query-red.ts"),
  }),
  toolCommand({
    name: "profile",
    tool: "coral_profile_functions",
    summary: "Show which functions of a service use the CPU, and what changed since an earlier time",
    description:
      "Agents sample every CPU continuously, so profiles of the past are available. SELF is the share of samples in the function itself, TOTAL includes everything it calls.",
    positional: ["service"],
    omit: ["stacks"],
    fields: {
      service: { description: "A service, or a process name; kernel shows kernel threads" },
      tree: { description: "Show the call tree instead of a list" },
      limit: { description: "Maximum number of functions" },
    },
    options: profileOutput,
    examples: [
      ["coral query profile api", "the last 10 minutes"],
      ["coral query profile api --tree", "by call path"],
      ["coral query profile api --since 10m --baseline 1d", "compared with the same time yesterday"],
      ["coral query profile api -o folded > api.folded", "for flame graph tools"],
    ],
    load: () => import("./query-profile.ts"),
  }),
  toolCommand({
    name: "connections",
    tool: "coral_query_connections",
    summary: "Show TCP connections per service: open, opened, failed, bytes, round-trip time, retransmits",
    positional: ["service"],
    fields: { service: { description: "Only this service; default: all services" } },
    options: watchedOutput,
    examples: [
      ["coral query connections", "all services"],
      ["coral query connections api --role client", "connections that api opens"],
    ],
    load: () => import("./query-connections.ts"),
  }),
  toolCommand({
    name: "traces",
    tool: "coral_query_traces",
    summary: "Search traces, or draw one as a waterfall with its critical path",
    description:
      "A trace matches when one of its spans matches every filter. In a waterfall, SELF is the time in which no awaited child ran, and * marks spans on the critical path.",
    positional: ["service"],
    fields: {
      service: { description: "Only traces with a span of this service; default: all services" },
      where: {
        value: "filter",
        description: "Attribute of that span or its resource: name, one of = != > >= < <= ~ !~, value; may be repeated",
      },
      order: { name: "sort" },
      limit: { description: "Maximum number of traces (default 20), or lines of one trace (default 200)" },
    },
    options: watchedOutput,
    examples: [
      ["coral query traces api --min-duration 500ms", "slow traces"],
      ["coral query traces --error --route /checkout", "failed traces of one route"],
      ["coral query traces --where 'http.status_code>=500' --where user.id=42", "by attributes"],
      [`coral query traces --trace-id ${traceId}`, "one trace as a waterfall"],
      [`coral query traces --trace-id ${traceId} --details`, "with attributes, events and links"],
    ],
    load: () => import("./query-traces.ts"),
  }),
  toolCommand({
    name: "logs",
    tool: "coral_query_logs",
    summary: "Show log records by service, severity, text, pattern or trace",
    description: "Prints the newest records, oldest first. --by pattern prints one line per template, most frequent first.",
    positional: ["service"],
    fields: {
      service: { description: "Only this service; default: all services" },
      pattern: { value: "id" },
      page: { value: "next", description: "Cursor for older records, as printed below a full page" },
    },
    options: watchedOutput,
    examples: [
      ["coral query logs api --level warn", "warnings and errors"],
      ["coral query logs api --by pattern --since 1h", "its most frequent messages"],
      ["coral query logs --grep 'connection refused'", "search all services"],
      [`coral query logs --trace-id ${traceId}`, "all records of one trace"],
    ],
    load: () => import("./query-logs.ts"),
  }),
  toolCommand({
    name: "metrics",
    tool: "coral_query_metrics",
    summary: "Show application metrics: rates of counters, values of gauges, percentiles of histograms",
    description:
      "Without a name, lists the metrics. Units are the sender's; metrics with the same name but different units are not merged.",
    positional: ["name"],
    omit: ["promql", "points"],
    fields: {
      name: { description: "Name of a metric, or part of one; default: list all metrics" },
      by: { value: "attribute", default: "service" },
      step: { description: "Time between points; default: what fits the terminal" },
    },
    options: watchedOutput,
    examples: [
      ["coral query metrics", "list the metrics"],
      ["coral query metrics http.server.request.duration --by http.route", "percentiles by route"],
      ["coral query metrics process.memory.usage --service api --since 6h", "one service"],
    ],
    load: () => import("./query-metrics.ts"),
  }),
  toolCommand({
    name: "database",
    tool: "coral_query_database",
    summary: "Inspect a database: lock holders, missing indexes, plans, sessions, tables; memory and keys of Redis",
    description:
      "Needs credentials, given to the agent of its host with coral connect. Opens one short read-only session; shows no row values.",
    positional: ["service"],
    fields: { statement: { value: "sql", description: "Statement to explain, as coral query red names it, with ? for values" } },
    options: watchedOutput,
    examples: [
      ["coral query database postgres", "who holds locks, which connections are open"],
      ["coral query database postgres --statement 'SELECT * FROM orders WHERE user_id = ?'", "its plan, and the missing index"],
    ],
    load: () => import("./query-database.ts"),
  }),
  toolCommand({
    name: "promql",
    tool: "coral_query_metrics",
    summary: "Evaluate a PromQL expression over application metrics",
    description:
      'Write names as Prometheus would (http_server_request_duration_seconds_bucket) or as sent ({"http.server.request.duration_count"}). Supports subqueries, offset, @ and group_left; docs/metrics.md lists the functions.',
    positional: ["promql"],
    omit: ["name", "service", "by", "points"],
    fields: {
      promql: { name: "expression", description: "Expression in quotes; read from stdin if omitted or -" },
      step: { description: "Time between points; default: what fits the terminal" },
    },
    options: watchedOutput,
    examples: [
      ["coral query promql 'sum by (service) (rate(http_requests_total[5m]))'", "requests per second"],
      [
        "coral query promql 'histogram_quantile(0.95, sum by (le, service) (rate(http_server_request_duration_seconds_bucket[5m])))'",
        "p95",
      ],
    ],
    load: () => import("./query-promql.ts"),
  }),
  toolCommand({
    name: "host",
    tool: "coral_query_host",
    summary: "Show host health: CPU, memory, pressure, disks, network, processes",
    positional: ["agent"],
    omit: ["points"],
    fields: { agent: { description: "Agent id or host name; default: the busiest hosts" } },
    options: watchedOutput,
    examples: [
      ["coral query host", "the busiest hosts now"],
      ["coral query host web-1 --since 2h", "one host over two hours"],
      ["coral query host web-1 --watch", "live"],
    ],
    load: () => import("./query-host.ts"),
  }),
  toolCommand({
    name: "sql",
    tool: "coral_query_sql",
    summary: "Run a read-only SQL query over the stored signals",
    description: "SHOW TABLES lists the views, DESCRIBE <view> its columns.",
    positional: ["sql"],
    fields: { sql: { name: "statement", required: false, description: "One SELECT; read from stdin if omitted or -" } },
    options: watchedOutput,
    examples: [
      ['coral query sql "SHOW TABLES"', "list views"],
      ['coral query sql "SELECT time, cpu_busy_ratio FROM host ORDER BY time DESC LIMIT 20"', "the newest samples"],
      ["coral query sql - -o csv < report.sql > report.csv", "for a spreadsheet"],
    ],
    load: () => import("./query-sql.ts"),
  }),
];
