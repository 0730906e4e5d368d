import { CoralError } from "../../base/errors.ts";
import { parseDurationMs } from "../../base/units.ts";

/** Typed access to the options of one call. Throws `usage` for a value of the wrong form, with the accepted form in the message. */
export class Options {
  readonly #values: Readonly<Record<string, unknown>>;

  /** Keys in the parser's camel case: `logLevel` for `--log-level`. */
  constructor(values: Readonly<Record<string, unknown>>) {
    this.#values = values;
  }

  text(name: string): string | undefined {
    const value = this.#values[camelCase(name)];
    return typeof value === "string" ? value : undefined;
  }

  /** All values of a repeatable option. */
  texts(name: string): string[] {
    const value = this.#values[camelCase(name)];
    return Array.isArray(value) ? value.filter((item) => typeof item === "string") : [];
  }

  /** Also true for an option whose optional value was omitted. */
  flag(name: string): boolean {
    return this.#values[camelCase(name)] === true;
  }

  integer(name: string, min: number, max: number): number | undefined {
    const text = this.text(name);
    if (text === undefined) return undefined;
    const value = Number(text);
    if (/^\d+$/.test(text) && value >= min && value <= max) return value;
    throw new CoralError({ code: "usage", message: `Cannot use --${name} "${text}": write a whole number from ${min} to ${max}` });
  }

  durationMs(name: string): number | undefined {
    const text = this.text(name);
    return text === undefined ? undefined : parseDurationOption(name, text);
  }

  /** Validates a duration and returns it as written, because tools take strings. */
  durationText(name: string): string | undefined {
    this.durationMs(name);
    return this.text(name);
  }
}

function parseDurationOption(name: string, text: string): number {
  try {
    return parseDurationMs(text);
  } catch (error) {
    const advice = CoralError.from(error).message.split(": ").slice(1).join(": ");
    throw new CoralError({ code: "usage", message: `Cannot use --${name} "${text}": ${advice}`, cause: error });
  }
}

function camelCase(name: string): string {
  return name.replace(/-([a-z])/g, (_dash, letter: string) => letter.toUpperCase());
}
