/** SQL conditions on services. Several texts may mean one service: its id in observed data, its names in telemetry. */

import type { ServiceFilter } from "../../model/services.ts";

/** The texts of a filter. Never empty, so that an empty filter matches nothing instead of everything. */
export function serviceTexts(filter: ServiceFilter): readonly string[] {
  if (typeof filter === "string") return [filter];
  return filter.length === 0 ? [""] : filter;
}

export interface NamedServiceFilter {
  /** For `IN (…)`: `$service0, $service1`. */
  list: string;
  parameters: Record<string, string>;
}

/** For statements with named parameters. */
export function namedFilter(filter: ServiceFilter, name = "service"): NamedServiceFilter {
  const texts = serviceTexts(filter);
  return {
    list: texts.map((_, index) => `$${name}${index}`).join(", "),
    parameters: Object.fromEntries(texts.map((text, index) => [`${name}${index}`, text])),
  };
}
