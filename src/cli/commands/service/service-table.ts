/** Top-level commands about services: `coral services`, `coral top`, `coral connect` and others. Short names for what is typed most. */

import type { CommandSpec } from "../../run/command-spec.ts";
import { toolCommand } from "../../run/tool-command.ts";
import { agentOption, dataOutput, outputOptions, watchedOutput } from "../shared-options.ts";

export const topCommand: CommandSpec = toolCommand({
  name: "top",
  tool: "coral_query_top",
  summary: "Show the busiest services live: rate, errors, latency, CPU",
  description:
    "Redraws every two seconds on a terminal; q quits; r, e, p and c sort by rate, errors, p95 and CPU. Prints once when the output is not a terminal.",
  omit: ["points"],
  fields: { limit: { default: null, description: "Maximum number of services; default: what fits the screen" } },
  options: [{ name: "once", description: "Print once, even on a terminal" }, ...dataOutput],
  examples: [
    ["coral top", "live"],
    ["coral top --once --sort p95", "the slowest services, once"],
  ],
  load: () => import("./top.ts"),
});

export const captureCommand: CommandSpec = toolCommand({
  name: "capture",
  tool: "coral_capture_requests",
  summary: "Show live requests of a service: path, status, headers, sizes, timings",
  description:
    "The agent redacts requests, shows only the headers that its config allows, and enforces the limits. Every capture is audited and recorded as an event. Needs the permission debug.",
  positional: ["service"],
  fields: {
    status: { value: "status" },
    minDuration: { default: null },
    limit: { default: "100", max: 100_000, description: "Stop after this many requests" },
    duration: { default: "30s", description: "Stop after this time" },
  },
  options: outputOptions(["table", "wide", "json"], "Output format; wide adds headers and timings, json is one object per line"),
  examples: [
    ["coral capture api", "every request"],
    ["coral capture api --status 5xx -o wide", "failures, with headers"],
    ["coral capture api --route /checkout --min-duration 250ms --duration 5m", "slow requests of one route"],
    ["coral events --kind capture-started", "who captured what"],
  ],
  load: () => import("./capture.ts"),
});

export const servicesCommand: CommandSpec = {
  name: "services",
  summary: "List the services of all hosts, or show one in full",
  description: "The full page shows processes with build and health, callers, callees and events.",
  arguments: [
    { name: "name", description: "A service, or part of a name to list those that match", required: false, completes: "services" },
  ],
  options: [
    agentOption,
    { name: "since", value: "duration", description: "How far back to look for calls of one service: 5m, 2h, 7d", default: "1h" },
    ...watchedOutput,
  ],
  examples: [
    ["coral services", "all services, one line each"],
    ["coral services api", "one service in full"],
    ["coral services --agent web-1 -o wide", "services of one host, with builds and executables"],
  ],
  load: () => import("./services.ts"),
};

export const eventsCommand: CommandSpec = toolCommand({
  name: "events",
  tool: "coral_list_events",
  summary: "List events: services restarted, updated or unhealthy, new external calls, agents, data loss",
  fields: { kind: { value: "kind" } },
  options: watchedOutput,
  load: () => import("./events.ts"),
});

export const deployCommands: readonly CommandSpec[] = [
  toolCommand({
    name: "mark",
    tool: "coral_mark_deployment",
    summary: "Record a deployment that Coral cannot detect: a configuration, a flag, a build without a version",
    description:
      "Coral detects a deployment when a process starts with a new program or version. A mark near a detected deployment is added to it. Needs the permission debug.",
    positional: ["service"],
    options: dataOutput,
    examples: [["coral deploy mark api --version 1.4.2 --note 'new cache'", "now"]],
    load: () => import("./deploy-mark.ts"),
  }),
];

export const connectCommand: CommandSpec = {
  name: "connect",
  summary: "Name services of this host and check their health",
  description:
    "Write a service as name:port[:health][:type]. A service discovered on that port becomes managed under this name. Survives restarts of the agent.",
  arguments: [{ name: "service", description: "name:port[:health][:type], such as api:8080:/health:http", required: true, variadic: true }],
  options: [
    { name: "port", value: "port", description: "Port, when the argument is only a name" },
    { name: "health", value: "path", description: "Path that returns 2xx or 3xx while the service is healthy; needs --port" },
    { name: "type", value: "type", description: "Type such as http, https or postgres; needs --port" },
    {
      name: "credentials-file",
      value: "path",
      description:
        "Read-only account of this database, in a file with mode 0600: user, password, database. The agent keeps it until disconnect",
    },
    ...dataOutput,
  ],
  examples: [
    ["coral connect postgres:5432", "health check: a TCP connection"],
    ["coral connect api:8080:/health:http web:3000 redis:6379", "several at once"],
    ["coral connect postgres:5432 --credentials-file pg-readonly", "lets coral diagnose explain statements and find lock holders"],
    ["coral connect frontend --port 3000 --health /health", "the long form"],
  ],
  load: () => import("./connect.ts"),
};

export const disconnectCommand: CommandSpec = {
  name: "disconnect",
  summary: "Stop managing services of this host; they remain as discovered services",
  arguments: [{ name: "service", description: "Name", required: true, variadic: true, completes: "managed-services" }],
  options: dataOutput,
  examples: [["coral disconnect postgres redis", "two at once"]],
  load: () => import("./disconnect.ts"),
};
