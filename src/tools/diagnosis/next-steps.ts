/** Suggests commands that show more about a cause, best first, with their cost. */

import { shellWord } from "../../base/escape-text.ts";
import type { CauseKind, Suspicion } from "../../diagnosis/index.ts";
import { type HostFact, loadMeasures, type TimeRange } from "../../model/diagnosis.ts";
import type { DiagnosisResult } from "../schemas/diagnosis.ts";

type Step = DiagnosisResult["next"][number];
type Subject = Pick<Suspicion, "service" | "kind" | "pointer">;

interface StepContext {
  after: TimeRange;
  hosts: readonly HostFact[];
  externals: readonly string[];
}

const minuteMs = 60_000;
const storedData = "reads stored data only; no load on the service";
const oneSession = "one read-only session of about 100 ms; needs credentials from coral connect";
const captureCost = "about 1% CPU of the agent for 30 s";
/** Live requests show what stored data lacks: headers, sizes, single timings. */
const capturedKinds: ReadonlySet<CauseKind> = new Set(["slow", "failing", "slow-code", "slow-link", "waiting"]);
const sqlVerb = /^(?:SELECT|INSERT|UPDATE|DELETE|WITH|MERGE)\b/i;
/** Maximum length of a statement's name. */
const statementMax = 200;

export function nextSteps(subject: Subject, context: StepContext): Step[] {
  const { service, kind } = subject;
  if (context.externals.includes(service)) return externalSteps(service, sinceOf(context.after));
  const steps = stepsOf(subject, context);
  if (!capturedKinds.has(kind) || !hasProcess(service, context.hosts)) return steps;
  return [...steps, step(`coral capture ${shellWord(service)} --duration 30s`, "live requests of the service", captureCost)];
}

/** The commands only. */
export function evidenceCommands(subject: Subject, context: StepContext): string[] {
  return stepsOf(subject, context).map(({ command }) => command);
}

/** Starts before the trouble, so that the change is visible. */
export function sinceOf({ fromMs, untilMs }: TimeRange): string {
  return `${Math.max(5, Math.ceil((untilMs - fromMs) / minuteMs) + 5)}m`;
}

const step = (command: string, shows: string, cost: string): Step => ({ command, why: `${shows}; ${cost}` });
const stored = (command: string, shows: string): Step => step(command, shows, storedData);

/** A service that no agent observes: only its callers' side is known. */
function externalSteps(service: string, since: string): Step[] {
  const name = shellWord(service);
  return [
    stored(
      `coral query red --peer ${name} --role client --by service --since ${since}`,
      "who calls it, how fast it responds, how often it fails",
    ),
    stored(`coral query connections --peer ${name} --since ${since}`, "failed connections, round-trip times and retransmits to it"),
  ];
}

function stepsOf({ service, kind, pointer }: Subject, { after, hosts }: StepContext): Step[] {
  const since = sinceOf(after);
  const name = shellWord(service);
  const red = stored(`coral query red ${name} --since ${since}`, "rate, errors and latency of each of its routes");
  const calls = stored(`coral query red ${name} --by peer --role client --since ${since}`, "what it calls, how fast and how often");
  const summary = stored(`coral query summary ${name}`, "its health, callers, callees and events on one page");
  const traces = stored(`coral query traces ${name} --since ${since}`, "where its requests spend their time, if it sends spans");
  const logs = stored(`coral query logs ${name} --since ${since}`, "its log records, if it sends logs");
  const events = stored(`coral events --service ${name} --since ${since}`, "when its processes ended or restarted");
  const profiles = (options: string, shows: string): Step[] =>
    hasProcess(service, hosts) ? [stored(`coral query profile ${name} ${options}--since ${since}`, shows)] : [];
  const profile = profiles("", "which functions use the CPU");
  const host = stored(
    `coral query host${hostWord(service, hosts)} --since ${since}`,
    "CPU, memory, disks, network and top processes of the host",
  );
  const database = step(`coral query database ${name}`, "sessions, locks, plans and tables as they are now", oneSession);
  const steps: Record<CauseKind, Step[]> = {
    resource:
      pointer === loadMeasures.cpu
        ? [...profile, summary]
        : [stored(`coral query metrics --service ${name} --since ${since}`, "its metrics over time"), summary],
    slow: [red, summary],
    failing: [red, logs],
    "slow-code": [traces, ...profile],
    "slow-link": [traces, stored(`coral query connections ${name} --since ${since}`, "its round-trip times, failures and retransmits")],
    "changed-path": [logs, traces],
    "more-traffic": [stored(`coral query red ${name} --by peer --role server --since ${since}`, "who sends the requests"), summary],
    host: [host, ...programsAt(hostOf(service, hosts))],
    "hot-code": [...profile, red],
    "blocked-thread": [...profiles("--tree ", "which calls keep the thread busy"), red],
    waiting: [calls, traces],
    "slow-statement": [statementStep(name, pointer) ?? database, red],
    "lock-wait": [step(`coral query database ${name}`, "which session holds the lock now, and which sessions wait", oneSession), red],
    "pool-exhausted": [stored(`coral query connections ${name} --role client --since ${since}`, "its open connections by callee"), calls],
    "disk-wait": [host, red],
    "packet-loss": [stored(`coral query connections ${name} --since ${since}`, "retransmits and round-trip times by peer"), host],
    "cpu-limit": [...profile, stored(`coral query summary ${name}`, "its CPU limit, throttling and load")],
    "out-of-memory": [events, stored(`coral query summary ${name}`, "its memory and limit")],
    down: [events, logs],
    "missing-index": [database, red],
    "connections-full": [step(`coral query database ${name}`, "who holds the connections now", oneSession), red],
    evictions: [step(`coral query database ${name}`, "its memory, evictions and big keys now", oneSession), red],
  };
  return steps[kind];
}

/** Profiles and captures are of processes: a service that is known by its spans only has neither. */
function hasProcess(service: string, hosts: readonly HostFact[]): boolean {
  return hosts.some(({ services }) => services.includes(service));
}

/** Shows the plan of the statement; null for another kind of command and for a truncated name. */
function statementStep(name: string, statement: string): Step | null {
  if (!sqlVerb.test(statement) || statement.length >= statementMax) return null;
  return step(`coral query database ${name} --statement ${shellWord(statement)}`, "its plan, and the missing index", oneSession);
}

/** The host in `host web-1`, else the only host where the service runs. */
function hostOf(service: string, hosts: readonly HostFact[]): string | null {
  const found = hosts.filter((host) => `host ${nameOf(host)}` === service || host.services.includes(service));
  const [only] = found;
  return only !== undefined && found.length === 1 ? nameOf(only) : null;
}

const nameOf = ({ hostname, agentId }: HostFact): string => (hostname === "" ? agentId : hostname);

function hostWord(service: string, hosts: readonly HostFact[]): string {
  const name = hostOf(service, hosts);
  return name === null ? "" : ` ${shellWord(name)}`;
}

function programsAt(host: string | null): Step[] {
  if (host === null) return [];
  return [
    step(
      `coral exec --agent ${shellWord(host)} "ps aux --sort=-%cpu | head"`,
      "what runs there now",
      "runs ps once; needs the permission exec",
    ),
  ];
}
