import { type Queryable, textIn, textOrNullIn, textsIn } from "../tables/queryable.ts";

/** One service with all its names. */
export interface ServiceNameRow {
  id: string;
  label: string;
  name: string;
  /** What the id was derived from; null for services known only by name. */
  origin: string | null;
  aliases: string[];
  formerNames: string[];
}

export interface StoredServiceNames {
  services: ServiceNameRow[];
  /** Texts in rows that resolve to one service: its id, and its names in telemetry. */
  texts: { text: string; id: string; label: string }[];
}

export async function readServiceNames(store: Queryable): Promise<StoredServiceNames> {
  const [services, texts] = await Promise.all([
    store.query("SELECT service, label, name, origin, aliases, former_names FROM net.services ORDER BY service"),
    store.query("SELECT text, service, label FROM net.service_names ORDER BY text"),
  ]);
  return {
    services: services.map((row) => ({
      id: textIn(row, "service"),
      label: textIn(row, "label"),
      name: textIn(row, "name"),
      origin: textOrNullIn(row, "origin"),
      aliases: textsIn(row, "aliases"),
      formerNames: textsIn(row, "former_names"),
    })),
    texts: texts.map((row) => ({ text: textIn(row, "text"), id: textIn(row, "service"), label: textIn(row, "label") })),
  };
}
