/** Runs commands that the table defines with toolCommand(). */

import type { ToolAnswer } from "../../tools/index.ts";
import { connectColony } from "./connection.ts";
import type { Invocation } from "./invocation.ts";
import { type AnswerView, showAnswer } from "./show-answer.ts";
import type { GivenInput, ToolFieldBinding, ToolInput, ToolName } from "./tool-command.ts";

/**
 * Tool input from the command line. Durations include their default, because pages print the time they cover; the tool applies
 * all other defaults.
 */
export function toolInput<Name extends ToolName>(invocation: Invocation, _tool: Name): GivenInput<Name> {
  const values = (invocation.spec.tool ?? []).map((binding) => [binding.field, givenValue(invocation, binding)] as const);
  return Object.fromEntries(values.filter(([, value]) => value !== undefined)) as GivenInput<Name>;
}

/** Undefined for an omitted option: the tool then applies its default, which may be newer than this CLI. */
function givenValue({ args, options }: Invocation, binding: ToolFieldBinding): unknown {
  if (typeof binding.from === "number") return args[binding.from];
  const { option } = binding.from;
  switch (binding.type) {
    case "switch":
      return options.flag(option) || undefined;
    case "integer":
      return options.integer(option, binding.min ?? 0, binding.max ?? Number.MAX_SAFE_INTEGER);
    case "duration":
      return options.durationText(option) ?? binding.default;
    case "list": {
      const texts = options.texts(option);
      return texts.length === 0 ? undefined : texts;
    }
    default:
      return options.text(option);
  }
}

/** Calls the command's tool with the input from the command line, and prints the answer. `own`: fields that the command sets itself. */
export async function showTool<Name extends ToolName>(
  invocation: Invocation,
  tool: Name,
  view: AnswerView<ToolAnswer<Name>>,
  own: ToolInput<Name> = {},
): Promise<void> {
  const input = { ...toolInput(invocation, tool), ...own };
  const colony = await connectColony(invocation);
  await showAnswer(invocation, () => colony.call(tool, input), view);
}
