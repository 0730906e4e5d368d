/** Reads the arguments and options of `coral exec`, `coral shell` and `coral run`. */

import { CoralError } from "../../../base/errors.ts";
import { given } from "../../../base/given.ts";
import { parseSizeBytes } from "../../../base/units.ts";
import type { CommandOrderInit, OrderKind } from "../../../transport/index.ts";
import type { Invocation } from "../../run/invocation.ts";

/** Without targets, the agent of this machine runs it, over its own socket. */
export interface WantedCommand extends CommandOrderInit {
  kind: OrderKind;
  targets?: CommandTargets;
}

// Excludes the finished messages that the generated types also allow.
type CommandTargets = Exclude<NonNullable<CommandOrderInit["targets"]>, { $typeName: string }>;
type CommandPlace = Exclude<NonNullable<CommandOrderInit["target"]>, { $typeName: string }>;

/** Everything that is wrong with the command line is reported here, before any request is sent. */
export function wantedCommand(invocation: Invocation, command: OrderKind): WantedCommand {
  const { options } = invocation;
  const targets = targetsOf(invocation);
  const { service, text, argv } = wordsOf(invocation, command, targets !== undefined);
  const all: CommandTargets | undefined = service === undefined ? targets : { ...targets, service: oneService(service, targets?.service) };
  if (all && options.flag("local")) throw usage("--local selects this machine's agent and cannot be combined with targets");
  const target = placeOf(invocation, all?.service !== undefined);
  // Locally, `coral run` starts the program in the shell's directory, which may not exist on another host.
  const workingDirectory = options.text("cwd") ?? (command === "run" && all === undefined ? process.cwd() : undefined);
  const timeoutMs = wholeNumber(options.durationMs("timeout"));
  const maxOutputBytes = wholeNumber(sizeOption(invocation, "max-output"));
  const environment = pairsOf("setenv", options.texts("setenv"));
  const serviceName = options.text("name");
  return {
    kind: command,
    ...given({ argv, text }),
    // A terminal is one process: use any one of the matching agents.
    ...(all === undefined ? {} : { targets: command === "shell" ? { ...all, one: true } : all }),
    ...given({ target, workingDirectory, environment, timeoutMs, maxOutputBytes, serviceName }),
    ...(options.flag("detach") ? { isDetached: true } : {}),
    ...(options.flag("read-only") ? { readOnly: true } : {}),
  };
}

/** What the positional arguments mean: a service, and either one text for the agent's parser or a list of arguments. */
interface Words {
  service?: string;
  text?: string;
  argv?: string[];
}

/** `api "ps aux"`, `api -- ps aux`, `"ps aux"` here, `-- ps aux` here; with --agent and similar options there is no service. */
function wordsOf({ args, passed }: Invocation, command: OrderKind, hasTargets: boolean): Words {
  const given = args.filter((word) => word !== undefined);
  const before = passed === undefined ? given : given.slice(0, given.length - passed.length);
  const [first, second] = before;
  if (passed !== undefined) {
    if (passed.length === 0) throw usage(`no program after --`);
    if (before.length > 1) throw usage(`"${second}" is before --; write the whole command after --`);
    return { argv: [...passed], ...(first === undefined ? {} : { service: first }) };
  }
  if (command === "shell") {
    if (before.length > 1) throw usage(`write the program after --: coral shell ${first} -- ${before.slice(1).join(" ")}`);
    return first === undefined ? {} : { service: first };
  }
  if (before.length > 2) {
    const words = before.slice(hasTargets ? 0 : 1).join(" ");
    throw usage(`quote the command, as in "${words}", or write -- before it`);
  }
  if (command === "run") throw usage(`write the program after --: coral run -- ${before.join(" ") || "./server --port 8080"}`);
  if (first === undefined) throw usage('no command given; write coral exec <service> "<command>", or -- and a program');
  return second === undefined ? { text: first } : { service: first, text: second };
}

/** Undefined without options that select agents: an empty selector would match none. */
function targetsOf({ options }: Invocation): CommandTargets | undefined {
  const agents = options.texts("agent");
  const labels = pairsOf("label", options.texts("label"));
  const service = options.text("service");
  const environment = options.text("env");
  const targets: CommandTargets = {
    ...(agents.length === 0 ? {} : { agents }),
    ...given({ labels, service, environment }),
    ...(options.flag("all") ? { all: true } : {}),
  };
  return Object.keys(targets).length === 0 ? undefined : targets;
}

/** The service may be the first argument, --service, or both if they agree. */
function oneService(word: string, option: string | undefined): string {
  if (option !== undefined && option !== word) throw usage(`two services given: "${word}" and --service "${option}"`);
  return word;
}

/** Where the agent runs the command. A pid selects a process of the service, if one is given, else of the host. */
function placeOf({ options }: Invocation, hasService: boolean): CommandPlace | undefined {
  const container = options.text("container");
  const pid = options.integer("pid", 1, 2 ** 31 - 1);
  const isHost = options.flag("host");
  if (isHost && (container !== undefined || pid !== undefined)) throw usage("--host cannot be combined with --container or --pid");
  if (isHost) return { kind: "host" };
  if (container !== undefined) return { kind: "container", container, ...(pid === undefined ? {} : { pid }) };
  return pid === undefined ? undefined : { kind: hasService ? "service" : "host", pid };
}

/** `name=value`; the value may contain further equals signs or be empty. */
function pairsOf(name: string, words: readonly string[]): Record<string, string> | undefined {
  if (words.length === 0) return undefined;
  return Object.fromEntries(
    words.map((word) => {
      const at = word.indexOf("=");
      if (at < 1) throw usage(`--${name} "${word}" must have the form name=value`);
      return [word.slice(0, at), word.slice(at + 1)];
    }),
  );
}

/** As bigint, for 64-bit protobuf fields. */
function wholeNumber(value: number | undefined): bigint | undefined {
  return value === undefined ? undefined : BigInt(Math.round(value));
}

function sizeOption({ options }: Invocation, name: string): number | undefined {
  const text = options.text(name);
  if (text === undefined) return undefined;
  try {
    return parseSizeBytes(text);
  } catch (error) {
    throw new CoralError({ code: "usage", message: `Cannot use --${name} "${text}": write a size such as 10MiB`, cause: error });
  }
}

function usage(problem: string): CoralError {
  return new CoralError({ code: "usage", message: `Cannot read the command: ${problem}` });
}
