/** Progress and results of the scripts: short lines on stderr, which keeps stdout for output. */

const colour = Boolean(process.stderr.isTTY) && !process.env["NO_COLOR"];
/** @param {string} code @param {string} text */
const paint = (code, text) => (colour ? `\u001b[${code}m${text}\u001b[0m` : text);

/** The name of a running step stays on the last line of a terminal until something is printed. */
const clearLine = process.stderr.isTTY ? "\u001b[K" : "";

/** @param {string} text */
export function say(text) {
  process.stderr.write(`${clearLine}${text}\n`);
}

/** @param {string} text */
export function warn(text) {
  say(`${paint("33", "!")} ${text}`);
}

/** @param {string} text */
export function fail(text) {
  say(`${paint("31", "✗")} ${text}`);
}

/**
 * Runs a named step and prints its duration.
 * @template T
 * @param {string} name
 * @param {() => T | Promise<T>} work
 * @returns {Promise<T>}
 */
export async function step(name, work) {
  const startMs = performance.now();
  if (process.stderr.isTTY) process.stderr.write(`${clearLine}${paint("90", "…")} ${name}\r`);
  try {
    const result = await work();
    say(`${paint("32", "✓")} ${name} ${paint("90", `(${seconds(performance.now() - startMs)})`)}`);
    return result;
  } catch (error) {
    fail(`${name} ${paint("90", `(${seconds(performance.now() - startMs)})`)}`);
    throw error;
  }
}

/** @param {number} ms */
export function seconds(ms) {
  return `${(ms / 1000).toFixed(1)} s`;
}

/** A failure that the user can fix: printed without a stack. */
export class SetupError extends Error {
  /** @param {string} message @param {string} [output] of the failed command */
  constructor(message, output = "") {
    super(message);
    this.output = output;
  }
}

/**
 * Prints a failure and sets the exit code: a SetupError as one message, anything else with its stack.
 * @param {unknown} error
 */
export function reportFailure(error) {
  if (error instanceof SetupError) {
    if (error.output.trim() !== "") say(error.output.trimEnd());
    fail(error.message);
  } else {
    say(error instanceof Error ? (error.stack ?? error.message) : String(error));
  }
  process.exitCode = 1;
}
