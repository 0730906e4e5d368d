/** The structure that all three kinds of request share: resources with scopes with items. */

import { MalformedError, type ProtobufReader } from "../columns/protobuf-reader.ts";
import type { ResourceCodes, ResourceReader, ScopeCodes } from "./resource-reader.ts";

/** Resource and scope of an item, as codes of the batch's dictionary; 0 for none. */
export interface ItemOwner {
  resource: ResourceCodes;
  resourceSchemaUrl: number;
  scope: ScopeCodes;
  scopeSchemaUrl: number;
}

/** `resource_spans`, `resource_logs` and `resource_metrics` are all field 1 of their request. */
const groupsTag = 10;
const groupTag = { owner: 10, items: 18, schemaUrl: 26 } as const;

/**
 * Calls `visit` for each item with the reader at its first byte. `visit` counts malformed items itself; returns how many groups
 * were malformed. The rest of the body after such a group is skipped.
 */
export function walkGroups(
  reader: ProtobufReader,
  owners: ResourceReader,
  body: Uint8Array,
  visit: (end: number, owner: ItemOwner) => void,
): number {
  reader.open(body);
  try {
    reader.each(groupsTag, body.length, (end) => walkResource(reader, owners, end, visit));
    return 0;
  } catch (error) {
    if (!(error instanceof MalformedError)) throw error;
    return 1;
  }
}

/** One resource group. Its scope groups have the same field numbers as itself. */
function walkResource(reader: ProtobufReader, owners: ResourceReader, end: number, visit: (end: number, owner: ItemOwner) => void): void {
  const start = reader.at;
  // The owner may follow its items, so it is found first.
  const found = findOwner(reader, owners, end);
  const resource = owners.resource(found.start, found.end);
  reader.at = start;
  reader.each(groupTag.items, end, (scopeEnd) => {
    const scopeStart = reader.at;
    const inner = findOwner(reader, owners, scopeEnd);
    const scope = owners.scope(inner.start, inner.end);
    const owner: ItemOwner = { resource, resourceSchemaUrl: found.schemaUrl, scope, scopeSchemaUrl: inner.schemaUrl };
    reader.at = scopeStart;
    reader.each(groupTag.items, scopeEnd, (itemEnd) => visit(itemEnd, owner));
  });
}

/** Byte range of the resource or scope of a group, and the code of its schema URL. An empty range if it has none. */
function findOwner(reader: ProtobufReader, owners: ResourceReader, end: number): { start: number; end: number; schemaUrl: number } {
  const owner = { start: 0, end: 0, schemaUrl: 0 };
  while (reader.at < end) {
    const tag = reader.tag();
    if (tag === groupTag.owner) {
      owner.end = reader.end(end);
      owner.start = reader.at;
      reader.at = owner.end;
    } else if (tag === groupTag.schemaUrl) {
      owner.schemaUrl = owners.text(end);
    } else {
      reader.skip(tag, end);
    }
  }
  return owner;
}
