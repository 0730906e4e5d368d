/** What services are called: from texts in rows to labels for people, and back. */

import { isServiceId, nameInServiceId } from "../../model/service-identity.ts";
import type { ServiceNameRow, StoredServiceNames } from "../../store/discovery/index.ts";

export class ServiceNames {
  readonly #byText: ReadonlyMap<string, { id: string; label: string }>;
  readonly #byLabel: ReadonlyMap<string, ServiceNameRow>;
  /** All texts in rows that mean a service, its id first. */
  readonly #textsById = new Map<string, string[]>();
  /** Ids by names, former names and aliases in lower case; several where namesakes share one. */
  readonly #idsByAlias = new Map<string, Set<string>>();

  constructor({ services, texts }: StoredServiceNames) {
    this.#byText = new Map(texts.map(({ text, id, label }) => [text, { id, label }]));
    this.#byLabel = new Map(services.map((service) => [service.label, service]));
    for (const { id, name, aliases, formerNames } of services) {
      this.#textsById.set(id, [id]);
      for (const alias of [name, ...formerNames, ...aliases]) {
        const key = alias.toLowerCase();
        this.#idsByAlias.set(key, (this.#idsByAlias.get(key) ?? new Set()).add(id));
      }
    }
    for (const { text, id } of texts) if (text !== id) this.#textsById.get(id)?.push(text);
  }

  /** The label of a text in a row. A text that no service has is its own label. */
  labelOf(text: string): string {
    return this.#byText.get(text)?.label ?? (isServiceId(text) ? nameInServiceId(text) : text);
  }

  /** The id that a text in a row means; the text itself when it means none. */
  idOf(text: string): string {
    return this.#byText.get(text)?.id ?? text;
  }

  /** The texts in rows that are meant by what a person wrote: a label, an id, or a name or alias, which may be that of several services. */
  textsOf(asked: string): readonly string[] {
    const labelled = this.#byLabel.get(asked);
    if (labelled) return this.#textsById.get(labelled.id) ?? [labelled.id];
    if (isServiceId(asked)) return this.#textsById.get(asked) ?? [asked];
    const ids = this.#idsByAlias.get(asked.toLowerCase());
    // Telemetry of a program that no agent observes may have that name, too.
    return ids ? [...new Set([...[...ids].flatMap((id) => this.#textsById.get(id) ?? [id]), asked])] : [asked];
  }

  /** All that is known of the service with this label. */
  serviceOf(label: string): ServiceNameRow | undefined {
    return this.#byLabel.get(label);
  }
}
