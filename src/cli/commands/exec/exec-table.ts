/** Commands that run something on agents. */

import type { ArgumentSpec, CommandSpec, OptionSpec } from "../../run/command-spec.ts";
import { outputOptions } from "../shared-options.ts";

const targetOptions: readonly OptionSpec[] = [
  {
    name: "agent",
    value: "agent",
    collects: true,
    description: "At this agent (id or host name); may be given again",
    completes: "agents",
  },
  {
    name: "service",
    value: "name",
    description: "At the agents where this service runs, inside it; the same as the first word",
    completes: "services",
  },
  { name: "label", value: "name=value", collects: true, description: "Only at agents with this label; may be given again" },
  { name: "env", value: "environment", description: "Only at agents of this environment, such as prod" },
  { name: "all", description: "At all agents" },
  { name: "local", description: "At the agent of this machine; so it is without any target" },
];

const placeOptions: readonly OptionSpec[] = [
  { name: "container", short: "c", value: "container", description: "Inside this container (name or id)" },
  { name: "pid", value: "pid", description: "Inside the namespaces of this process; with a service, one of its processes" },
  { name: "host", description: "On the host, not inside the service" },
];

const runOptions: readonly OptionSpec[] = [
  { name: "cwd", value: "directory", description: "Working directory there" },
  {
    name: "setenv",
    short: "e",
    value: "name=value",
    collects: true,
    description: "Variable of its environment, where the policy allows it; may be given again",
  },
];

const limitOptions: readonly OptionSpec[] = [
  { name: "timeout", value: "duration", description: "End it after this time; default and most: the agent's config" },
  { name: "max-output", value: "size", description: "End it when it writes more, such as 10MiB; default and most: the agent's config" },
];

const streamOutput = outputOptions(["table", "json"], "Output format; json is one object per line: targets, output, results");

const words = (description: string): ArgumentSpec[] => [
  { name: "words", description, required: false, variadic: true, completes: "services" },
];

export const execCommand: CommandSpec = {
  name: "exec",
  summary: "Run a command at one or many agents, on the host or inside a service",
  description:
    "The agent's policy decides, by default for diagnostics that change nothing; no shell reads the command, pipes work. Exits with the command's own code; 2 when no target is able, 3 when it is not permitted, 124 after its time. Needs the permission exec.",
  arguments: words(
    "A service and a quoted command; without a service, it runs at this machine's agent. Words after -- are a program and its arguments",
  ),
  options: [
    ...targetOptions,
    ...placeOptions,
    ...runOptions,
    ...limitOptions,
    { name: "stdin", short: "i", description: "Pass the input on" },
    { name: "tty", short: "t", description: "With a terminal, for programs that draw" },
    { name: "read-only", description: "Only what changes nothing, whatever the policy allows" },
    ...streamOutput,
  ],
  examples: [
    ['coral exec api "ps aux | head"', "inside the service api, wherever it runs"],
    ["coral exec --agent web-1 -- ss -tnlp", "on one host; words as they are"],
    ['coral exec --label zone=eu-1 "df -h"', "on many hosts, each line with its name"],
    ['coral exec "free -m"', "on this machine"],
    ["coral exec api -t -- top", "a program that draws"],
  ],
  load: () => import("./exec.ts"),
};

export const shellCommand: CommandSpec = {
  name: "shell",
  summary: "Open a terminal on an agent's host, or inside a service or container",
  description:
    "Recorded when the agent is configured so; see coral audit replay. Needs a policy that allows it. Enter ~ . hangs up. With several agents that fit, the first able one is taken. Needs the permission exec.",
  arguments: words("A service; without one, the terminal is on this machine. Words after -- are the program instead of the shell"),
  options: [...targetOptions, ...placeOptions, ...runOptions, ...limitOptions.slice(0, 1)],
  examples: [
    ["coral shell api", "inside a service"],
    ["coral shell --agent web-1", "on a host"],
    ["coral shell api -c sidecar -- bash -l", "in one of its containers, with bash"],
  ],
  load: () => import("./shell.ts"),
};

export const runCommand: CommandSpec = {
  name: "run",
  summary: "Start a program under the agent and observe it as a service",
  description:
    "Its output comes here, Ctrl-C goes there. It is never restarted, and ends with this command unless it is detached. Needs a policy that allows it, and the permission exec.",
  arguments: words("After --: the program and its arguments"),
  options: [
    { name: "name", value: "name", description: "Name of the service; default: that of the program" },
    { name: "detach", short: "d", description: "Let it run on when this command ends" },
    ...targetOptions,
    ...runOptions,
    { name: "stdin", short: "i", description: "Pass the input on" },
    ...streamOutput,
  ],
  examples: [
    ["coral run -- node server.js", "here, until Ctrl-C"],
    ["coral run --name api --detach -- ./api --port 8080", "goes on"],
  ],
  load: () => import("./run.ts"),
};
