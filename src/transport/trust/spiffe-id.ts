/** Names inside certificates: `spiffe://<colony-id>/colony` and `spiffe://<colony-id>/agent/<agent-id>`, as URI in the subject alternative name. */

import type { X509Certificate } from "node:crypto";
import { CoralError } from "../../base/errors.ts";

export type SpiffeId = { kind: "colony"; colonyId: string } | { kind: "agent"; colonyId: string; agentId: string };

// Neither may contain a character with a meaning in a URI or in the text form of a subject alternative name.
const idPattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

/** Throws `invalid` for an id that cannot be put into a certificate. */
export function assertId(what: "colony id" | "agent id", id: string): void {
  if (idPattern.test(id)) return;
  throw new CoralError({
    code: "invalid",
    message: `Cannot use ${what} "${id}": it must be 1 to 128 letters, digits, ".", "_" or "-" and begin with a letter or digit`,
  });
}

/** The ids must be valid; see `assertId`. */
export function formatSpiffeId(id: SpiffeId): string {
  return id.kind === "colony" ? `spiffe://${id.colonyId}/colony` : `spiffe://${id.colonyId}/agent/${id.agentId}`;
}

/** Undefined for anything that `formatSpiffeId` does not write. */
export function parseSpiffeId(uri: string): SpiffeId | undefined {
  const match = /^spiffe:\/\/([^/]+)\/(?:(colony)|agent\/([^/]+))$/.exec(uri);
  const [, colonyId, colony, agentId] = match ?? [];
  if (colonyId === undefined || !idPattern.test(colonyId)) return undefined;
  if (colony !== undefined) return { kind: "colony", colonyId };
  return agentId !== undefined && idPattern.test(agentId) ? { kind: "agent", colonyId, agentId } : undefined;
}

/** The SPIFFE id of a certificate. Undefined if there is none, or more than one, which would be ambiguous. */
export function spiffeIdOf(certificate: X509Certificate): SpiffeId | undefined {
  const uris = uriNamesOf(certificate.subjectAltName ?? "");
  const [only, ...others] = uris;
  return only === undefined || others.length > 0 ? undefined : parseSpiffeId(only);
}

/** The URIs in `DNS:a, URI:b, IP Address:c`. Node writes a value with a separator as a JSON string, which is skipped completely. */
export function uriNamesOf(subjectAltName: string): string[] {
  const names = subjectAltName.matchAll(/(?:^|, )([A-Za-z0-9 .]+):("(?:[^"\\]|\\.)*"|[^,]*)/gy);
  return [...names].filter(([, type, value]) => type === "URI" && value?.startsWith('"') === false).map(([, , value]) => value ?? "");
}
