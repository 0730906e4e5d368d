import { CoralError } from "../../../base/errors.ts";
import { tableOf } from "../../output/table.ts";
import { connectColony } from "../../run/connection.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showAnswer } from "../../run/show-answer.ts";
import { readInput } from "../read-input.ts";

/** `coral tool call <name> [input]`: JSON in, JSON out. */
export async function run(invocation: Invocation): Promise<void> {
  const name = invocation.args[0] ?? "";
  if (!/^[a-z][a-z0-9_]*$/.test(name)) {
    throw new CoralError({
      code: "usage",
      message: `Cannot call tool "${name}": names look like coral_get_status; "coral tool list" shows them`,
    });
  }
  const given = invocation.args[1];
  const input = parseInput(given === "-" ? await readInput(invocation, "the JSON input") : (given ?? "{}"));
  const colony = await connectColony(invocation);
  const answer = await colony.callByName(name, input);
  const format = invocation.format === "yaml" ? "yaml" : "json";
  await showAnswer({ ...invocation, format }, () => Promise.resolve(answer), { table: () => tableOf([], []) });
}

/** JSON.parse accepts any value; a tool takes an object. */
function parseInput(text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new CoralError({
      code: "usage",
      message: `Cannot read the input as JSON: ${error instanceof Error ? error.message : String(error)}`,
      cause: error,
    });
  }
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw new CoralError({ code: "usage", message: 'Cannot use the input: a tool takes a JSON object, such as {"since":"1h"}' });
}
