/** Maps row keys of services to labels, and back. */

import { isServiceId, nameInServiceId } from "../../model/service-identity.ts";
import type { ServiceNameRow, StoredServiceNames } from "../../store/discovery/index.ts";

export class ServiceNames {
  readonly #byText: ReadonlyMap<string, { id: string; label: string }>;
  readonly #byLabel: ReadonlyMap<string, ServiceNameRow>;
  /** All row keys of a service, its id first. */
  readonly #textsById = new Map<string, string[]>();
  /** Ids by lower-case name, former name or alias; several for namesakes. */
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

  /** The label of a row key; an unknown key is its own label. */
  labelOf(text: string): string {
    return this.#byText.get(text)?.label ?? (isServiceId(text) ? nameInServiceId(text) : text);
  }

  /** The id of a row key; an unknown key is its own id. */
  idOf(text: string): string {
    return this.#byText.get(text)?.id ?? text;
  }

  /** Row keys for user input: a label, an id, or a name or alias, which several services may share. */
  textsOf(text: string): readonly string[] {
    const labelled = this.#byLabel.get(text);
    if (labelled) return this.#textsById.get(labelled.id) ?? [labelled.id];
    if (isServiceId(text)) return this.#textsById.get(text) ?? [text];
    const ids = this.#idsByAlias.get(text.toLowerCase());
    // Telemetry of an unobserved program may also use that name.
    return ids ? [...new Set([...[...ids].flatMap((id) => this.#textsById.get(id) ?? [id]), text])] : [text];
  }

  /** The service with this label. */
  serviceOf(label: string): ServiceNameRow | undefined {
    return this.#byLabel.get(label);
  }
}
