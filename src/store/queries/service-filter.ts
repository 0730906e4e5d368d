/** Conditions on services in SQL. A service may be meant by several texts: its id in what agents observe, its names in telemetry. */

import type { ServiceFilter } from "../../model/services.ts";

/** The texts of a filter; at least one, so that an empty filter finds nothing. */
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
