/**
 * The identity of a service, derived from the facts of its process: the id in all rows. Ids are stored, so changing any rule here turns existing
 * services into new ones.
 */

import { hash } from "node:crypto";
import { basename, dirname } from "node:path";
import { printable } from "../../base/escape-text.ts";
import { type OriginKind, type ServiceOrigin, serviceIdOf } from "../../model/service-identity.ts";
import { type ConfigArguments, configArgumentsOf } from "./config-argument.ts";
import type { ContainerFacts } from "./container-facts.ts";
import type { KubernetesFacts } from "./kubernetes-facts.ts";
import { isOwnChild } from "./own-processes.ts";
import { nameOfDirectory, nameOfFile } from "./path-name.ts";
import { type ScriptEntry, scriptEntryOf } from "./script-entry.ts";
import { interpreterOf } from "./script-name.ts";
import { cleanName, givenNameOf, multiCall, nameOfEnvironment, temporaryBuild } from "./service-name.ts";
import { stablePath } from "./stable-path.ts";
import { erlangNameOf, wellKnownClassOf, wellKnownProgramOf } from "./well-known-programs.ts";

export interface OriginFacts {
  exe: string | null;
  /** The kernel's name of the process. */
  processName: string;
  /** argv; read but never stored. */
  arguments: readonly string[];
  workingDirectory: string | null;
  environment: ReadonlyMap<string, string>;
  /** From systemdUnitOf: null outside of units, and in units that do not identify their processes. */
  unit: string | null;
  container: ContainerFacts | null;
  kubernetes: KubernetesFacts | null;
  /** Redacts secrets in paths before they are shown. */
  redact: (text: string) => string;
}

/** The origin of a process before its ports and `coral run` are known. */
export interface ProcessOrigin extends ServiceOrigin {
  readonly kind: OriginKind;
  readonly environment: string | null;
  /** A well-known infrastructure program, such as `redis`; null for others. */
  readonly infrastructure: string | null;
  /** Without configuration file and data directory, only its port distinguishes such a program from its copies. */
  readonly isIdentifiedByPort: boolean;
}

/** Docker runs one of these for each published port; together they are one service. */
const notByPort = new Set(["docker-proxy"]);
const maxTextLength = 512;

export function originOfProcess(facts: OriginFacts): ProcessOrigin {
  return originOfWorkload(facts) ?? originOfContainer(facts) ?? originOfUnit(facts) ?? originOfProgram(facts);
}

/** Adds the port that a scan found. It is the first qualifier of infrastructure, and the last one of other programs. */
export function originAtPort(origin: ProcessOrigin, port: number | null): ServiceOrigin {
  const { id, text, qualifiers, infrastructure, environment } = origin;
  if (port === null) return { id, text, qualifiers };
  if (infrastructure === null || origin.kind !== "program") return { id, text, qualifiers: [...qualifiers, `:${port}`] };
  const withPort = [`:${port}`, ...qualifiers];
  if (!origin.isIdentifiedByPort) return { id, text, qualifiers: withPort };
  const digest = digestOf(["port", infrastructure, port]);
  return {
    id: serviceIdOf("program", infrastructure, digest, environment),
    text: `${infrastructure} on port ${port}`,
    qualifiers: withPort,
  };
}

/** A program of `coral run`. */
export function originOfRun(name: string, process: ProcessOrigin | null): ServiceOrigin {
  return { id: serviceIdOf("run", name, null, process?.environment ?? null), text: `coral run ${name}`, qualifiers: ["coral run"] };
}

/** A port whose owner cannot be read. */
export function originOfPort(hostname: string, port: number): ServiceOrigin {
  return {
    id: serviceIdOf("port", `${cleanName(hostname) ?? "host"}/${port}`, null),
    text: `port ${port} of ${hostname}, owner unknown`,
    qualifiers: [`:${port}`, `${hostname}:${port}`],
  };
}

/** One port of a process whose ports have different user-given names. */
export function originOfNamedPort({ id, text, qualifiers }: ServiceOrigin, port: number): ServiceOrigin {
  return { id: `${id}:${port}`, text: `${text}, port ${port}`, qualifiers: [`:${port}`, ...qualifiers] };
}

function digestOf(parts: readonly (string | number | null)[]): string {
  return hash("sha256", JSON.stringify(parts), "hex").slice(0, 12);
}

function environmentOf({ environment }: OriginFacts): string | null {
  const attributes = environment.get("OTEL_RESOURCE_ATTRIBUTES") ?? "";
  const value = (name: string): string | undefined => new RegExp(`(?:^|,)\\s*${name}=([^,]+)`).exec(attributes)?.[1];
  return cleanName((value("deployment\\.environment\\.name") ?? value("deployment\\.environment"))?.trim());
}

interface Described {
  kind: OriginKind;
  name: string;
  digest: string | null;
  text: string;
  qualifiers: readonly (string | null)[];
  infrastructure?: string | null;
  isIdentifiedByPort?: boolean;
}

function describe(facts: OriginFacts, described: Described): ProcessOrigin {
  const { kind, name, digest, text, infrastructure = null, isIdentifiedByPort = false } = described;
  const environment = environmentOf(facts);
  const shown = [environment, ...described.qualifiers.filter((part) => part !== "/")].map(
    (part) => part && printable(facts.redact(part), maxTextLength),
  );
  return {
    id: serviceIdOf(kind, name, digest, environment),
    text: printable(facts.redact(text), maxTextLength),
    qualifiers: [...new Set(shown.filter((part) => part !== null && part !== ""))] as string[],
    kind,
    environment,
    infrastructure,
    isIdentifiedByPort,
  };
}

function originOfWorkload(facts: OriginFacts): ProcessOrigin | null {
  const { kubernetes, container } = facts;
  const workload = cleanName(kubernetes?.workload ?? kubernetes?.app ?? container?.pod?.name);
  if (!kubernetes || workload === null) return null;
  const parts = [kubernetes.namespace ?? "default", workload, kubernetes.container].map(cleanName).filter((part) => part !== null);
  const name = parts.join("/");
  return describe(facts, {
    kind: "workload",
    name,
    digest: null,
    text: `Kubernetes workload ${name}`,
    qualifiers: [kubernetes.container, kubernetes.namespace, name],
  });
}

/** System containers (LXC, nspawn) run several services, like a machine. */
function originOfContainer(facts: OriginFacts): ProcessOrigin | null {
  const { container } = facts;
  if (!container || container.runtime === "lxc" || container.runtime === "nspawn") return null;
  const own = cleanName(container.service ?? container.name);
  if (own === null) return null;
  const project = container.service === null ? null : cleanName(container.project);
  const name = project === null ? own : `${project}/${own}`;
  const { image } = container;
  return describe(facts, {
    kind: "container",
    name,
    digest: image === null ? null : digestOf(["image", image]),
    text: `container ${name}${image === null ? "" : ` (image ${image})`}`,
    qualifiers: [project, image && basename(image), image, "container"],
  });
}

function originOfUnit(facts: OriginFacts): ProcessOrigin | null {
  const unit = cleanName(facts.unit);
  if (unit === null) return null;
  return describe(facts, { kind: "unit", name: unit, digest: null, text: `systemd unit ${unit}`, qualifiers: [`${unit}.service`] });
}

function originOfProgram(facts: OriginFacts): ProcessOrigin {
  const program = facts.exe ?? facts.processName;
  const interpreter = interpreterOf(program);
  const args = wordsOf(facts.arguments);
  const entry = interpreter === null ? null : scriptEntryOf(interpreter, facts.arguments, facts.workingDirectory);
  const config = configArgumentsOf(interpreter === null ? args.slice(1) : (entry?.rest ?? []), facts.workingDirectory);
  const infrastructure = infrastructureOf(program, args, entry);
  if (infrastructure !== null) return originOfInfrastructure(facts, infrastructure, config);
  // Query results exclude Coral, so all its processes are one service, wherever they were started.
  if (entry !== null && (entry.name === "coral" || isOwnChild(entry.path, facts.arguments)))
    return describe(facts, { kind: "program", name: "coral", digest: null, text: "Coral itself", qualifiers: [] });
  return interpreter === null ? originOfExecutable(facts, program, config) : originOfScript(facts, interpreter, entry, config);
}

/** Some programs write their whole command line into argv[0]: `nginx: master process /usr/sbin/nginx -c /etc/nginx/a.conf`. */
function wordsOf(args: readonly string[]): readonly string[] {
  return args.length === 1 ? (args[0] ?? "").split(" ") : args;
}

function infrastructureOf(program: string, args: readonly string[], entry: ScriptEntry | null): string | null {
  if (basename(program) === "beam.smp") {
    const name = erlangNameOf(args);
    return name !== null && ["rabbitmq", "couchdb", "emqx", "ejabberd"].includes(name) ? name : null;
  }
  if (entry?.key.startsWith("module ")) return wellKnownClassOf(entry.text);
  const known = wellKnownProgramOf(program);
  return known === null || notByPort.has(known) ? null : known;
}

/** Paths are used unchanged: `/var/lib/postgresql/14/main` and `15/main` are two databases. */
function originOfInfrastructure(facts: OriginFacts, program: string, { file, dataDirectory }: ConfigArguments): ProcessOrigin {
  const place = file ?? dataDirectory;
  const { workingDirectory } = facts;
  return describe(facts, {
    kind: "program",
    name: program,
    // Without configuration and data directory, this id is used only while the program does not listen.
    digest: place === null ? digestOf(["infrastructure", program, null, workingDirectory]) : digestOf(["infrastructure", program, place]),
    text: place === null ? `${program}${workingDirectory === null ? "" : ` in ${workingDirectory}`}` : `${program} with ${place}`,
    qualifiers: place === null ? [workingDirectory] : [nameOfPath(place), place],
    infrastructure: program,
    isIdentifiedByPort: place === null,
  });
}

/** `orders` of `/etc/postgresql/orders/postgresql.conf` and of `/srv/orders.conf`. */
function nameOfPath(place: string): string | null {
  const own = basename(place).replace(/\.\w+$/, "");
  return /^(?:main|data|conf(?:ig)?|default|\d+|nginx|redis|postgresql|my|mongod?|haproxy|httpd)$/i.test(own)
    ? nameOfDirectory(dirname(place))
    : own;
}

function originOfExecutable(facts: OriginFacts, program: string, { file }: ConfigArguments): ProcessOrigin {
  const { workingDirectory } = facts;
  const directory = workingDirectory && stablePath(workingDirectory);
  const applet = multiCall.has(basename(program)) ? basename(facts.arguments[0] ?? program) : givenNameOf(program, facts.arguments);
  // `go run` builds into another directory each time, so the working directory identifies the program.
  const path = temporaryBuild.test(program) ? basename(program) : stablePath(program);
  const name =
    cleanName(temporaryBuild.test(program) && directory ? (nameOfDirectory(directory) ?? path) : (applet ?? nameOfFile(path, null))) ??
    "program";
  const given = file && stablePath(file);
  return describe(facts, {
    kind: "program",
    name,
    digest: digestOf(["executable", path, applet, directory, given, nameOfEnvironment(facts.environment)]),
    text: `${applet ?? program}${given === null ? "" : ` with ${given}`}${inDirectory(directory)}`,
    qualifiers: [
      ...(given === null ? [] : [nameOfPath(given)]),
      directory && nameOfDirectory(directory),
      directory,
      path.startsWith("/") ? nameOfDirectory(dirname(path)) : null,
      path,
      given,
    ],
  });
}

function originOfScript(facts: OriginFacts, interpreter: string, entry: ScriptEntry | null, { file }: ConfigArguments): ProcessOrigin {
  const { workingDirectory } = facts;
  const directory = workingDirectory && stablePath(workingDirectory);
  const given = file && stablePath(file);
  const path = entry?.path ?? null;
  const called = facts.exe === null ? null : givenNameOf(facts.exe, facts.arguments);
  const parts = ["script", kindOf(interpreter), entry?.key ?? null, directory, given, nameOfEnvironment(facts.environment)];
  return describe(facts, {
    kind: "program",
    name: cleanName(called) ?? cleanName(entry?.name) ?? cleanName(directory && nameOfDirectory(directory)) ?? interpreter,
    // One script under two names of `exec -a` is two services.
    digest: digestOf(called === null ? parts : [...parts, called]),
    text: `${interpreter} ${entry?.text ?? ""}${given === null ? "" : ` with ${given}`}`.trim() + inDirectory(directory),
    qualifiers: [
      ...(given === null ? [] : [nameOfPath(given)]),
      path === null ? null : nameOfDirectory(dirname(path)),
      directory && nameOfDirectory(directory),
      path === null ? directory : dirname(path),
      path ?? entry?.text ?? null,
      given,
    ],
  });
}

const kindOf = (interpreter: string): string => (interpreter === "nodejs" ? "node" : interpreter);

function inDirectory(directory: string | null): string {
  return directory === null || directory === "/" ? "" : ` in ${directory}`;
}
