import { CoralError } from "../../../base/errors.ts";
import { escapeText } from "../../../base/escape-text.ts";
import { checkServiceSpec, type GivenCredentials, parseServiceSpec, type ServiceSpec } from "../../../config/index.ts";
import type { ServicesConnected } from "../../../tools/index.ts";
import type { Printer } from "../../output/printer.ts";
import { type Column, tableOf } from "../../output/table.ts";
import { callAgent } from "../../run/connection.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showAnswer } from "../../run/show-answer.ts";
import { readCredentialsFile } from "./read-credentials-file.ts";

type Connected = ServicesConnected["services"][number];

/** `coral connect name:port[:health][:type]…`: connects all services or none. */
export async function run(invocation: Invocation): Promise<void> {
  const services = specsOf(invocation);
  const credentials = await credentialsOf(invocation, services);
  const body = credentials === undefined ? { services } : { services, credentials };
  const ask = (): Promise<ServicesConnected> => callAgent(invocation, { method: "POST", path: "/v1/services", body });
  await showAnswer(invocation, ask, {
    table: (answer) => tableOf(answer.services, columns),
    page: (answer) => answer.services.map((service) => outcomeText(service, invocation.print)).join(""),
  });
}

/** The agent tests the account with a login before it stores anything. */
async function credentialsOf({ options }: Invocation, services: readonly ServiceSpec[]): Promise<GivenCredentials | undefined> {
  const path = options.text("credentials-file");
  if (path === undefined) return undefined;
  if (services.length > 1) throw usage("Cannot use --credentials-file with several services: connect each database separately");
  return await readCredentialsFile(path);
}

/** Reads the requested services from either form. Throws `usage`. */
function specsOf({ args, options }: Invocation): ServiceSpec[] {
  const words = args.filter((word) => word !== undefined);
  const port = options.integer("port", 1, 65_535);
  const [health, type] = [options.text("health"), options.text("type")];
  if (port === undefined) {
    if (health !== undefined || type !== undefined) {
      const flag = health === undefined ? "--type" : "--health";
      throw usage(`Cannot use ${flag} without --port: write name:port:health:type, or add --port`);
    }
    return withoutDuplicates(words.map(parseServiceSpec));
  }
  const [name = ""] = words;
  if (words.length > 1) throw usage("Cannot use --port with several services: write each as name:port[:health][:type]");
  if (name.includes(":")) throw usage(`Cannot use --port with "${name}": it includes a port`);
  return [
    asUsage(() => checkServiceSpec({ name, port, ...(health === undefined ? {} : { health }), ...(type === undefined ? {} : { type }) })),
  ];
}

/** The agent identifies a managed service by port, so a port may be used only once. */
function withoutDuplicates(specs: ServiceSpec[]): ServiceSpec[] {
  const byPort = new Map<number, ServiceSpec>();
  for (const spec of specs) {
    const other = byPort.get(spec.port);
    if (other !== undefined) {
      const why = other.name === spec.name ? "the name is used twice" : `port ${spec.port} is also used for "${other.name}"`;
      throw usage(`Cannot connect service "${spec.name}": ${why}`);
    }
    byPort.set(spec.port, spec);
  }
  return specs;
}

/** Rewords the parser's error for the long form, where values come from flags. */
function asUsage<T>(check: () => T): T {
  try {
    return check();
  } catch (error) {
    throw new CoralError({ code: "usage", message: CoralError.from(error).message, cause: error });
  }
}

function usage(message: string): CoralError {
  return new CoralError({ code: "usage", message });
}

function outcomeText(service: Connected, print: Printer): string {
  return `${connectedText(service, print)}${databaseText(service)}`;
}

function databaseText({ database }: Connected): string {
  if (database === undefined) return "";
  const { engine, version, user, canWrite, notes } = database;
  const rights = canWrite === null ? "" : canWrite ? "; this account can write, a read-only one suffices" : ", read-only";
  const lines = [`Database: ${engine} ${version} as "${user}"${rights}`, ...notes.map((note) => `Note: ${note}`)];
  return lines.map((line) => `  ${escapeText(line)}\n`).join("");
}

/** One to three lines per service, by outcome: promoted from discovered, registered in advance, updated, or unchanged. */
function connectedText(service: Connected, { style }: Printer): string {
  const name = `'${escapeText(service.name)}'`;
  const done = style("green", "✓");
  const check =
    service.health === null ? `a connection to port ${service.port}` : `GET ${escapeText(service.health)} on port ${service.port}`;
  const monitoring = service.type === "udp" ? "Now managed; UDP has no health check" : "Now managed with health monitoring enabled";
  switch (service.outcome) {
    case "promoted": {
      const { discovered } = service;
      const other = discovered !== null && discovered.name !== service.name ? `, as '${escapeText(discovered.name)}'` : "";
      return `${done} Service ${name} promoted to managed\n  Previously discovered via: ${escapeText(discovered?.method ?? "unknown")}${other}\n  ${monitoring}\n`;
    }
    case "registered":
      return `${done} Service ${name} registered as managed\n  Nothing was discovered on port ${service.port} yet\n  ${monitoring}\n`;
    case "updated":
      return `${done} Service ${name} updated\n  Health check: ${check}\n`;
    case "unchanged":
      return `${done} Service ${name} is already managed\n  Health: ${service.check.state} (${escapeText(service.check.detail)})\n`;
  }
}

const columns: readonly Column<Connected>[] = [
  { title: "SERVICE", key: "name", cell: (service) => service.name },
  { title: "PORT", key: "port", cell: (service) => service.port },
  { title: "HEALTH", key: "health", cell: (service) => service.health },
  { title: "TYPE", key: "type", cell: (service) => service.type },
  { title: "OUTCOME", key: "outcome", cell: (service) => service.outcome },
  { title: "PREVIOUSLY", key: "previousMethod", cell: (service) => service.discovered?.method },
];
