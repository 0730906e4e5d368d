import { describe, expect, it } from "vitest";
import { cpuMsOf } from "../base/cpu-time.fixture.ts";
import {
  type CommandLine,
  innocent,
  innocentVariables,
  plantedBlind,
  plantedByShape,
  plantedVariables,
} from "./planted-secrets.fixture.ts";
import { redactCommand } from "./redact-command.ts";
import { isSecretText, redactEnvironment, redactVariable } from "./redact-environment.ts";
import { redactCommandLine } from "./redact-line.ts";

function argsOf(line: CommandLine): string[] {
  return typeof line === "string" ? line.split(" ") : [...line];
}

const marked = /«([^»]*)»/g;

function withoutMarks(text: string): string {
  return text.replace(/[«»]/g, "");
}

/** The planted secrets of a text, and their words of at least three characters: half a secret is a leak too. */
function secretsOf(text: string): string[] {
  const rest = text.replace(marked, "");
  const secrets = [...text.matchAll(marked)].map((match) => match[1] ?? "");
  return secrets.flatMap((secret) => [secret, ...secret.split(/[^A-Za-z0-9]+/).filter((word) => word.length >= 3 && !rest.includes(word))]);
}

function leaksOf(text: string, redacted: string): string[] {
  return secretsOf(text).filter((secret) => redacted.includes(secret));
}

const planted = [...plantedBlind, ...plantedByShape].map(argsOf);
/** Without its quotes, a secret with blanks cannot be distinguished from the words around it. */
const titles = planted.map((args) => args.join(" ")).filter((line) => !/«[^»]* /.test(line));

describe("planted secrets", () => {
  it("are numerous", () => {
    expect(plantedBlind.length).toBeGreaterThanOrEqual(60);
    expect(planted.length + plantedVariables.length).toBeGreaterThanOrEqual(150);
    expect(innocent.length + innocentVariables.length).toBeGreaterThanOrEqual(150);
  });

  it.each(planted.map((args) => [args]))("are not left in %j", (args) => {
    const redacted = redactCommandLine(args.map(withoutMarks));
    expect(leaksOf(args.join(" "), redacted), redacted).toEqual([]);
  });

  it.each(titles)("are not left in the title %j", (title) => {
    const redacted = redactCommandLine([withoutMarks(title)]);
    expect(leaksOf(title, redacted), redacted).toEqual([]);
  });

  it.each(titles)("are not left in the audited command %j", (title) => {
    const redacted = redactCommand(withoutMarks(title));
    expect(leaksOf(title, redacted), redacted).toEqual([]);
  });

  it.each(plantedVariables)("are not left in %s=%s, whose name reveals nothing", (name, value) => {
    const redacted = redactVariable(name, withoutMarks(value));
    expect(leaksOf(value, redacted)).toEqual([]);
    expect(isSecretText(redacted)).toBe(true);
    expect(leaksOf(value, JSON.stringify(redactEnvironment([`${name}=${withoutMarks(value)}`])))).toEqual([]);
  });
});

describe("innocent texts", () => {
  it.each(innocent.map((line) => [argsOf(line)]))("are unchanged: %j", (args) => {
    expect(redactCommandLine(args)).toBe(args.join(" "));
  });

  it.each(innocentVariables)("are unchanged: %s=%s", (name, value) => {
    expect(redactVariable(name, value)).toBe(value);
  });
});

it("redacts a thousand command lines in less than a quarter of a second", () => {
  const lines = [...innocent.map(argsOf), ...planted.map((args) => args.map(withoutMarks))];
  const cpuMs = cpuMsOf(() => {
    for (let index = 0; index < 1_000; index++) redactCommandLine(lines[index % lines.length] ?? []);
  });
  expect(cpuMs).toBeLessThan(250);
});
