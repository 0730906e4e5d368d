/**
 * The identity of a service, as opposed to its name. Rows of all signals carry a service's id; its name is a label that may change. Equal
 * origins have equal ids on every host, so agents need no coordination.
 */

/**
 * What an id is derived from, most specific first: a Kubernetes workload, a container, a systemd unit, the name given to `coral run`, the
 * program with its script and directory, or only a port whose owner cannot be read.
 */
export const originKinds = ["workload", "container", "unit", "run", "program", "port"] as const;
export type OriginKind = (typeof originKinds)[number];

export interface ServiceOrigin {
  /** `unit:postgresql`, `program:worker#3fa2c91b7d04`. */
  readonly id: string;
  /** For people: `python worker.py in /srv/billing`. */
  readonly text: string;
  /** Distinguish services of the same name, shortest first: `billing`, `/srv/billing`; a port as `:5432`. */
  readonly qualifiers: readonly string[];
}

const idPattern = new RegExp(`^(?:${originKinds.join("|")}):`);

/** True for ids; false for names that programs chose, as in spans. */
export function isServiceId(text: string): boolean {
  return idPattern.test(text);
}

/**
 * `digest`: lower-case hex of what `name` does not express; null if there is nothing more. An environment other than the default separates
 * services.
 */
export function serviceIdOf(kind: OriginKind, name: string, digest: string | null, environment: string | null = null): string {
  return `${kind}:${name}${digest === null ? "" : `#${digest}`}${environment === null ? "" : `@${environment}`}`;
}

/** True if only the port of a service is known: the process belongs to another user or pid namespace. */
export function hasUnknownOwner(id: string): boolean {
  return id.startsWith(`${"port" satisfies OriginKind}:`);
}

/** A name for an id that is no longer in the registry: `worker` for `program:worker#3fa2c91b7d04`; other texts unchanged. */
export function nameInServiceId(id: string): string {
  if (!isServiceId(id)) return id;
  const name = id.slice(id.indexOf(":") + 1).replace(/#[0-9a-f]+(?=@|$)/, "");
  return name.slice(name.lastIndexOf("/") + 1);
}
