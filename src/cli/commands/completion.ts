import { bashCompletion } from "../completion/bash.ts";
import { fishCompletion } from "../completion/fish.ts";
import { zshCompletion } from "../completion/zsh.ts";
import type { Invocation } from "../run/invocation.ts";

/** `coral completion <shell>`: prints a script that is generated from the command table. */
export async function run(invocation: Invocation): Promise<void> {
  const scripts = { bash: bashCompletion, zsh: zshCompletion, fish: fishCompletion };
  const shell = invocation.args[0] as keyof typeof scripts;
  invocation.print.answer(scripts[shell](invocation.table.root, invocation.table.globals));
}
