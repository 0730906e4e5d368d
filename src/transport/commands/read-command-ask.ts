/** Checks what a client asks for before anyone acts on it. */

import { CoralError } from "../../base/errors.ts";
import type { CommandAsk, CommandPlace, CommandTargets, TerminalShape } from "./command-messages.ts";

const maxTextBytes = 64 * 1024;
const maxWords = 1_000;
const maxEntries = 200;
const maxNameLength = 1_000;
const maxTerminalSide = 10_000;

/** The first frame of a client. Throws `invalid` naming the field. */
export function readCommandAsk(value: unknown): CommandAsk {
  const fields = objectOf(value, "the first frame");
  if (fields["kind"] !== "command") throw invalid("the first frame", 'must be of the kind "command"');
  const ask: CommandAsk = {
    kind: "command",
    command: choiceOf(fields["command"], "command", ["exec", "shell", "run"]),
    ...defined({
      argv: maybe("argv", fields["argv"], wordsOf),
      text: maybe("text", fields["text"], (text, name) => textOf(text, name, maxTextBytes)),
      targets: maybe("targets", fields["targets"], targetsOf),
      where: maybe("where", fields["where"], placeOf),
      workingDirectory: maybe("workingDirectory", fields["workingDirectory"], nameOf),
      environment: maybe("environment", fields["environment"], mapOf),
      timeoutMs: maybe("timeoutMs", fields["timeoutMs"], countOf),
      maxOutputBytes: maybe("maxOutputBytes", fields["maxOutputBytes"], countOf),
      terminal: maybe("terminal", fields["terminal"], terminalOf),
      serviceName: maybe("serviceName", fields["serviceName"], nameOf),
      isDetached: maybe("isDetached", fields["isDetached"], flagOf),
      readOnly: maybe("readOnly", fields["readOnly"], flagOf),
      through: maybe("through", fields["through"], (through, name) => choiceOf(through, name, ["cli", "http"])),
    }),
  };
  if (ask.argv !== undefined && ask.text !== undefined) throw invalid("argv", "cannot stand beside text");
  if (ask.command !== "shell" && ask.argv === undefined && ask.text === undefined) throw invalid("argv", "is missing, and so is text");
  return ask;
}

function targetsOf(value: unknown, name: string): CommandTargets {
  const fields = objectOf(value, name);
  return defined({
    agents: maybe("agents", fields["agents"], wordsOf),
    service: maybe("service", fields["service"], nameOf),
    labels: maybe("labels", fields["labels"], mapOf),
    environment: maybe("environment", fields["environment"], nameOf),
    all: maybe("all", fields["all"], flagOf),
    one: maybe("one", fields["one"], flagOf),
  });
}

function placeOf(value: unknown, name: string): CommandPlace {
  const fields = objectOf(value, name);
  return {
    kind: choiceOf(fields["kind"], `${name}.kind`, ["host", "service", "container"]),
    ...defined({
      service: maybe("service", fields["service"], nameOf),
      container: maybe("container", fields["container"], nameOf),
      pid: maybe("pid", fields["pid"], countOf),
    }),
  };
}

export function terminalOf(value: unknown, name: string): TerminalShape {
  const fields = objectOf(value, name);
  const side = (field: string): number => {
    const size = countOf(fields[field], `${name}.${field}`);
    if (size < 1 || size > maxTerminalSide) throw invalid(`${name}.${field}`, `must be 1 to ${maxTerminalSide}`);
    return size;
  };
  return { columns: side("columns"), rows: side("rows"), ...defined({ type: maybe("type", fields["type"], nameOf) }) };
}

function maybe<T>(name: string, value: unknown, read: (value: unknown, name: string) => T): T | undefined {
  return value === undefined ? undefined : read(value, name);
}

function defined<T extends object>(fields: T): { [Name in keyof T]?: Exclude<T[Name], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [Name in keyof T]?: Exclude<T[Name], undefined>;
  };
}

function objectOf(value: unknown, name: string): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw invalid(name, "must be an object");
  return value as Record<string, unknown>;
}

function choiceOf<Choice extends string>(value: unknown, name: string, choices: readonly Choice[]): Choice {
  const found = choices.find((choice) => choice === value);
  if (found === undefined) throw invalid(name, `must be one of ${choices.join(", ")}`);
  return found;
}

function textOf(value: unknown, name: string, maxBytes: number): string {
  if (typeof value !== "string") throw invalid(name, "must be a text");
  if (Buffer.byteLength(value) > maxBytes) throw invalid(name, `is longer than ${maxBytes} bytes`);
  // The kernel would end the word there, and everyone else would go on reading.
  if (value.includes("\0")) throw invalid(name, "holds a zero byte");
  return value;
}

function nameOf(value: unknown, name: string): string {
  return textOf(value, name, maxNameLength);
}

function wordsOf(value: unknown, name: string): string[] {
  if (!Array.isArray(value) || value.length === 0) throw invalid(name, "must be a list with at least one word");
  if (value.length > maxWords) throw invalid(name, `has more than ${maxWords} words`);
  return value.map((word, index) => textOf(word, `${name}[${index}]`, maxTextBytes));
}

function mapOf(value: unknown, name: string): Record<string, string> {
  const entries = Object.entries(objectOf(value, name));
  if (entries.length > maxEntries) throw invalid(name, `has more than ${maxEntries} entries`);
  return Object.fromEntries(entries.map(([key, text]) => [nameOf(key, name), textOf(text, `${name}.${key}`, maxTextBytes)]));
}

function countOf(value: unknown, name: string): number {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0) throw invalid(name, "must be a whole number");
  return value;
}

function flagOf(value: unknown, name: string): boolean {
  if (typeof value !== "boolean") throw invalid(name, "must be true or false");
  return value;
}

function invalid(name: string, problem: string): CoralError {
  return new CoralError({ code: "invalid", message: `Cannot read the command: ${name} ${problem}`, details: { field: name } });
}
