/** Limits on a client's order, checked before anything uses it. */

import { CoralError } from "../../base/errors.ts";
import type { CommandOrder, CommandTargets, TerminalSize } from "../../proto/coral/agent/v1/commands_pb.ts";

/** Of one argument, value, or command text. */
const maxTextBytes = 64 * 1024;
/** Entries of a list. */
const maxArguments = 1_000;
/** Entries of a map, such as environment variables. */
const maxEntries = 200;
/** Bytes of names, paths and keys. */
const maxNameLength = 1_000;
/** Columns or rows. The kernel has 16 bits for each; programs allocate memory for the product. */
const maxTerminalSide = 10_000;

const kinds = ["exec", "shell", "run"] as const;
const places = ["host", "service", "container"] as const;

export type OrderKind = (typeof kinds)[number];
type PlaceKind = (typeof places)[number];

/** Throws `invalid` naming the field. */
export function checkOrder(order: CommandOrder): void {
  const kind = orderKindOf(order);
  const { argv, text, target, terminal, targets } = order;
  if (argv.length > 0 && text !== "") throw invalid("argv", "cannot be combined with text");
  if (kind !== "shell" && argv.length === 0 && text === "") throw invalid("argv", "is missing, and so is text");
  checkList("argv", argv);
  checkText("text", text, maxTextBytes);
  if (target) {
    placeKindOf(target.kind);
    checkText("target.service", target.service);
    checkText("target.container", target.container);
  }
  checkText("workingDirectory", order.workingDirectory);
  checkMap("environment", order.environment);
  checkNumber("timeoutMs", order.timeoutMs);
  checkNumber("maxOutputBytes", order.maxOutputBytes);
  if (terminal) checkTerminal("terminal", terminal);
  checkText("serviceName", order.serviceName);
  if (targets) checkTargets(targets);
  throughOf(order);
}

/** Throws `invalid` for a kind that this version does not have. */
export function orderKindOf({ kind }: Pick<CommandOrder, "kind">): OrderKind {
  return choiceOf("kind", kind, kinds);
}

/** The kind of client, for the audit. */
export function throughOf({ caller }: CommandOrder): "cli" | "http" {
  return choiceOf("caller.through", caller?.through || "http", ["cli", "http"] as const);
}

function placeKindOf(kind: string): PlaceKind {
  return choiceOf("target.kind", kind, places);
}

/** Throws `invalid` naming the field. */
export function checkTerminal(name: string, { columns, rows, type }: TerminalSize): void {
  for (const [side, size] of Object.entries({ columns, rows })) {
    if (size < 1 || size > maxTerminalSide) throw invalid(`${name}.${side}`, `must be 1 to ${maxTerminalSide}`);
  }
  checkText(`${name}.type`, type);
}

function checkTargets({ agents, service, labels, environment }: CommandTargets): void {
  checkList("targets.agents", agents);
  checkText("targets.service", service);
  checkMap("targets.labels", labels);
  checkText("targets.environment", environment);
}

function choiceOf<Choice extends string>(name: string, value: string, choices: readonly Choice[]): Choice {
  const found = choices.find((choice) => choice === value);
  if (found === undefined) throw invalid(name, `must be one of ${choices.join(", ")}`);
  return found;
}

function checkText(name: string, text: string, maxBytes = maxNameLength): void {
  if (Buffer.byteLength(text) > maxBytes) throw invalid(name, `is longer than ${maxBytes} bytes`);
  // The kernel would end the argument there, while policy and audit would see all of it.
  if (text.includes("\0")) throw invalid(name, "contains a zero byte");
}

function checkList(name: string, values: readonly string[]): void {
  if (values.length > maxArguments) throw invalid(name, `has more than ${maxArguments} entries`);
  for (const [index, value] of values.entries()) checkText(`${name}[${index}]`, value, maxTextBytes);
}

function checkMap(name: string, map: Readonly<Record<string, string>>): void {
  const entries = Object.entries(map);
  if (entries.length > maxEntries) throw invalid(name, `has more than ${maxEntries} entries`);
  for (const [key, value] of entries) {
    checkText(name, key);
    checkText(`${name}.${key}`, value, maxTextBytes);
  }
}

function checkNumber(name: string, value: bigint): void {
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw invalid(name, "is too large");
}

function invalid(name: string, problem: string): CoralError {
  return new CoralError({ code: "invalid", message: `Cannot read the command: ${name} ${problem}`, details: { field: name } });
}
