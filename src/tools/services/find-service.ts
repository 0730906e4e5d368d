import { CoralError } from "../../base/errors.ts";
import type { ServiceAtAgent } from "../../model/services.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import type { ToolCallContext } from "../contract/define-tool.ts";

const namesShown = 10;

/** Resolves a service by its label, case-insensitive, by its id, a former name or an alias, or by the only label that contains the text. Throws `not-found` with some known names. */
export async function findService(backend: ColonyBackend, text: string, context: ToolCallContext): Promise<string> {
  const places = await backend.services({ processes: false }, context);
  const names = [...new Set(places.map((place) => place.service))].sort();
  if (names.includes(text)) return text;
  const wanted = text.toLowerCase();
  const same = names.filter((name) => name.toLowerCase() === wanted);
  const meant = same.length > 0 ? same : calledSo(places, wanted);
  const near = meant.length > 0 ? meant : names.filter((name) => name.toLowerCase().includes(wanted));
  const [only] = near;
  if (only !== undefined && near.length === 1) return only;
  const listed = (near.length > 0 ? near : names).slice(0, namesShown);
  const more = (near.length > 0 ? near : names).length - listed.length;
  const state =
    names.length === 0
      ? "no service has been found yet; agents scan every half minute"
      : `${near.length > 0 ? "several names match" : "no service has that name; known services"}: ${listed.join(", ")}${more > 0 ? ` and ${more} more; see coral services` : ""}`;
  throw new CoralError({ code: "not-found", message: `Cannot find service "${text}": ${state}`, details: { service: text } });
}

/** Services with this id, former name or alias. */
function calledSo(places: readonly ServiceAtAgent[], wanted: string): string[] {
  const isCalledSo = ({ id, aliases = [] }: ServiceAtAgent): boolean =>
    id?.toLowerCase() === wanted || aliases.some((alias) => alias.toLowerCase() === wanted);
  return [...new Set(places.filter(isCalledSo).map(({ service }) => service))].sort();
}

const dayMs = 86_400_000;

/** The same, but accepts a name that is known only from spans or logs. */
export async function findSender(backend: ColonyBackend, text: string, context: ToolCallContext): Promise<string> {
  try {
    return await findService(backend, text, context);
  } catch (error) {
    const day = { sinceMs: dayMs };
    const sent = (await Promise.all([backend.spanServices(day, context), backend.logServices(day, context)])).flat();
    const own = sent.find((name) => name === text) ?? sent.find((name) => name.toLowerCase() === text.toLowerCase());
    if (own === undefined) throw error;
    return own;
  }
}
