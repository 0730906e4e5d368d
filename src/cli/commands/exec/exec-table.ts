/**
 * `coral exec`, `coral shell` and `coral run`: commands that run on agents. The options that select agents and the place on the agent are
 * declared once and shared. `--` ends Coral's own options, so that options of the program are passed on.
 */

import type { ArgumentSpec, CommandSpec, OptionSpec } from "../../run/command-spec.ts";
import { outputOptions } from "../shared-options.ts";

const targetOptions: readonly OptionSpec[] = [
  {
    name: "agent",
    value: "agent",
    collects: true,
    description: "Run at this agent (id or host name); may be repeated",
    completes: "agents",
  },
  {
    name: "service",
    value: "name",
    description: "Run inside this service, wherever it runs; same as the first argument",
    completes: "services",
  },
  { name: "label", value: "name=value", collects: true, description: "Only agents with this label; may be repeated" },
  { name: "env", value: "environment", description: "Only agents of this environment, such as prod" },
  { name: "all", description: "Run at all agents" },
  { name: "local", description: "Run at the agent of this machine; the default without a target" },
];

const placeOptions: readonly OptionSpec[] = [
  { name: "container", short: "c", value: "container", description: "Run inside this container (name or id)" },
  { name: "pid", value: "pid", description: "Run inside the namespaces of this process; with a service, one of its processes" },
  { name: "host", description: "Run on the host, not inside the service" },
];

const runOptions: readonly OptionSpec[] = [
  { name: "cwd", value: "directory", description: "Working directory on the target" },
  {
    name: "setenv",
    short: "e",
    value: "name=value",
    collects: true,
    description: "Set an environment variable, if the policy allows it; may be repeated",
  },
];

const limitOptions: readonly OptionSpec[] = [
  { name: "timeout", value: "duration", description: "Stop the command after this time; default and maximum: the agent's config" },
  {
    name: "max-output",
    value: "size",
    description: "Stop the command at this much output, such as 10MiB; default and maximum: the agent's config",
  },
];

const streamOutput = outputOptions(["table", "json"], "Output format; json is one object per line: targets, output, results");

const words = (description: string): ArgumentSpec[] => [
  { name: "words", description, required: false, variadic: true, completes: "services" },
];

export const execCommand: CommandSpec = {
  name: "exec",
  summary: "Run a command at one or many agents, on the host or inside a service",
  description:
    "The agent's policy decides what may run; by default read-only diagnostics. Pipes work, but no shell interprets the command. Exits with the command's own code, 2 when no target supports it, 3 when it is not permitted, 124 on timeout. Needs the permission exec.",
  arguments: words(
    "A service and a quoted command; without a service, runs at this machine's agent. After --: a program and its arguments",
  ),
  options: [
    ...targetOptions,
    ...placeOptions,
    ...runOptions,
    ...limitOptions,
    { name: "stdin", short: "i", description: "Forward stdin" },
    { name: "tty", short: "t", description: "Allocate a terminal, for full-screen programs" },
    { name: "read-only", description: "Allow only read-only commands, even if the policy allows more" },
    ...streamOutput,
  ],
  examples: [
    ['coral exec api "ps aux | head"', "inside the service api, wherever it runs"],
    ["coral exec --agent web-1 -- ss -tnlp", "on one host; arguments passed unchanged"],
    ['coral exec --label zone=eu-1 "df -h"', "on many hosts, each line prefixed with its host"],
    ['coral exec "free -m"', "on this machine"],
    ["coral exec api -t -- top", "a full-screen program"],
  ],
  load: async () => ({ run: (await import("./exec.ts")).exec }),
};

export const shellCommand: CommandSpec = {
  name: "shell",
  summary: "Open a terminal on an agent's host, or inside a service or container",
  description:
    "Recorded if the agent is configured for it; see coral audit replay. Needs a policy that allows it. Enter ~ . disconnects. Of several matching agents, uses the first that supports it. Needs the permission exec.",
  arguments: words("A service; without one, opens the terminal on this machine. After --: a program to run instead of the shell"),
  options: [...targetOptions, ...placeOptions, ...runOptions, ...limitOptions.slice(0, 1)],
  examples: [
    ["coral shell api", "inside a service"],
    ["coral shell --agent web-1", "on a host"],
    ["coral shell api -c sidecar -- bash -l", "in one of its containers, with bash"],
  ],
  load: async () => ({ run: (await import("./exec.ts")).shell }),
};

export const runCommand: CommandSpec = {
  name: "run",
  summary: "Start a program under the agent and observe it as a service",
  description:
    "Streams its output and forwards Ctrl-C. The agent never restarts it, and ends it with this command unless --detach is set. Needs a policy that allows it, and the permission exec.",
  arguments: words("After --: a program and its arguments"),
  options: [
    { name: "name", value: "name", description: "Name of the service; default: the program's" },
    { name: "detach", short: "d", description: "Keep the program running when this command exits" },
    ...targetOptions,
    ...runOptions,
    { name: "stdin", short: "i", description: "Forward stdin" },
    ...streamOutput,
  ],
  examples: [
    ["coral run -- node server.js", "here, until Ctrl-C"],
    ["coral run --name api --detach -- ./api --port 8080", "keeps running"],
  ],
  load: async () => ({ run: (await import("./exec.ts")).run }),
};
