import { closest } from "../../../base/closest.ts";
import { CoralError } from "../../../base/errors.ts";
import type { Context, Contexts } from "../../../config/index.ts";

/** The context of that name, or an error that names those there are. */
export function findContext({ contexts }: Contexts, name: string): Context {
  const found = contexts.find((context) => context.name === name);
  if (found) return found;
  const names = contexts.map((context) => context.name);
  const near = closest(name, names);
  const hint = near ? `did you mean "${near}"?` : names.length > 0 ? `there are ${names.join(", ")}` : "there are none";
  throw new CoralError({ code: "not-found", message: `Cannot find context "${name}": ${hint}`, details: { known: names } });
}
