/**
 * What a service is, as opposed to what it is called. Rows of all signals carry a service's id; its name is a label that may change. Equal
 * origins have equal ids on every host, so agents need not agree on anything.
 */

/**
 * What an id is made from, most telling first: a Kubernetes workload, a container, a systemd unit, the name given to `coral run`, the program
 * with its script and directory, or only a port whose owner cannot be read.
 */
export const originKinds = ["workload", "container", "unit", "run", "program", "port"] as const;
export type OriginKind = (typeof originKinds)[number];

export interface ServiceOrigin {
  /** `unit:postgresql`, `program:worker#3fa2c91b7d04`. */
  readonly id: string;
  /** For people: `python worker.py in /srv/billing`. */
  readonly text: string;
  /** What tells namesakes apart, shortest first: `billing`, `/srv/billing`; a port as `:5432`. */
  readonly qualifiers: readonly string[];
}

const idPattern = new RegExp(`^(?:${originKinds.join("|")}):`);

/** True for ids; false for names that programs gave themselves, as in spans. */
export function isServiceId(text: string): boolean {
  return idPattern.test(text);
}

/** `digest`: lower-case hex of what `name` does not say; null when it says all. An environment other than the default keeps services apart. */
export function serviceIdOf(kind: OriginKind, name: string, digest: string | null, environment: string | null = null): string {
  return `${kind}:${name}${digest === null ? "" : `#${digest}`}${environment === null ? "" : `@${environment}`}`;
}

/** A name for an id that no registry knows any more: `worker` for `program:worker#3fa2c91b7d04`; other texts as they are. */
/** True for a service of which only the port is known: the process behind it belongs to another user or pid namespace. */
export function hasUnknownOwner(id: string): boolean {
  return id.startsWith(`${"port" satisfies OriginKind}:`);
}

export function nameInServiceId(id: string): string {
  if (!isServiceId(id)) return id;
  const name = id.slice(id.indexOf(":") + 1).replace(/#[0-9a-f]+(?=@|$)/, "");
  return name.slice(name.lastIndexOf("/") + 1);
}
