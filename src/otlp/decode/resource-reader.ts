/** Resource and scope of the rows that follow. Both are stored as JSON text by code; frequently queried attributes get their own columns. */

import type { ByteDictionary } from "../columns/byte-dictionary.ts";
import { ByteWriter, utf8Cut } from "../columns/byte-writer.ts";
import { KnownKeys } from "../columns/known-keys.ts";
import { KnownOwners } from "../columns/known-owners.ts";
import type { ProtobufReader } from "../columns/protobuf-reader.ts";
import { type AttributeReader, anyValue } from "./attribute-reader.ts";

const key = { name: 0, namespace: 1, version: 2, instance: 3, environment: 4, host: 5 } as const;

const resourceKeys = new KnownKeys([
  ["service.name", key.name],
  ["service.namespace", key.namespace],
  ["service.version", key.version],
  ["service.instance.id", key.instance],
  ["deployment.environment.name", key.environment],
  ["deployment.environment", key.environment],
  ["host.name", key.host],
]);
/** Columns of `key`; two attribute keys share `environment`. */
const keyCount = 6;
/** Names are shown in tables and listed in manifests. */
const maxNameBytes = 255;
/** Names of scopes and addresses of schemas. */
const maxTextBytes = 1_024;

/** The default service name of SDKs. */
const unnamedService = "unknown_service";

/** Codes of the batch's dictionary; 0 is none. */
export interface ResourceCodes {
  service: number;
  serviceNamespace: number;
  serviceVersion: number;
  serviceInstance: number;
  environment: number;
  hostName: number;
  /** The whole resource as a JSON object; 0 if it is empty. */
  json: number;
}

/** Codes of the batch's dictionary; 0 is none. */
export interface ScopeCodes {
  name: number;
  version: number;
  /** Attributes as a JSON object; 0 when there are none. */
  json: number;
}

const scopeTag = { name: 10, version: 18, attribute: 26 } as const;
/** Resource.attributes: field 1. */
const resourceAttributeTag = 10;

/** Reads each distinct resource and scope once per batch. Senders repeat theirs in every request. */
export class ResourceReader {
  readonly #reader: ProtobufReader;
  readonly #attributes: AttributeReader;
  readonly #dictionary: ByteDictionary;
  readonly #json = new ByteWriter(4_096);
  readonly #found = new Int32Array(keyCount);
  readonly #resources: KnownOwners<ResourceCodes>;
  readonly #scopes: KnownOwners<ScopeCodes>;

  constructor(reader: ProtobufReader, attributes: AttributeReader, dictionary: ByteDictionary) {
    this.#reader = reader;
    this.#attributes = attributes;
    this.#dictionary = dictionary;
    this.#resources = new KnownOwners(dictionary);
    this.#scopes = new KnownOwners(dictionary);
  }

  /** A Resource in [start, end); none when both are equal. */
  resource(start: number, end: number): ResourceCodes {
    return this.#once(this.#resources, start, end, () => this.#readResource(start, end));
  }

  #readResource(start: number, end: number): ResourceCodes {
    const found = this.#found.fill(0);
    const json = this.#object(start, end, resourceAttributeTag, found);
    const [service, serviceNamespace, serviceVersion, serviceInstance, environment, hostName] = found as unknown as number[];
    return {
      service: service || this.#dictionary.codeOfText(unnamedService),
      serviceNamespace: serviceNamespace ?? 0,
      serviceVersion: serviceVersion ?? 0,
      serviceInstance: serviceInstance ?? 0,
      environment: environment ?? 0,
      hostName: hostName ?? 0,
      json,
    };
  }

  /** An InstrumentationScope in [start, end). */
  scope(start: number, end: number): ScopeCodes {
    return this.#once(this.#scopes, start, end, () => this.#readScope(start, end));
  }

  #readScope(start: number, end: number): ScopeCodes {
    const reader = this.#reader;
    const codes: ScopeCodes = { name: 0, version: 0, json: this.#object(start, end, scopeTag.attribute, undefined) };
    reader.at = start;
    while (reader.at < end) {
      const tag = reader.tag();
      if (tag === scopeTag.name) codes.name = this.text(end);
      else if (tag === scopeTag.version) codes.version = this.text(end);
      else reader.skip(tag, end);
    }
    return codes;
  }

  #once<Codes>(known: KnownOwners<Codes>, start: number, end: number, read: () => Codes): Codes {
    const found = known.find(this.#reader, start, end);
    if (found !== undefined) return found;
    const cutBefore = this.#attributes.cut;
    const codes = read();
    // Cut attributes count each time.
    if (this.#attributes.cut === cutBefore) known.keep(this.#reader, start, end, codes);
    return codes;
  }

  /** The code of a string field whose tag was just read. */
  text(limit: number): number {
    const reader = this.#reader;
    const end = reader.end(limit);
    const cut = utf8Cut(reader.bytes, reader.at, end, maxTextBytes);
    const code = this.#attributes.secrets.codeIn(this.#dictionary, reader, reader.at, cut);
    reader.at = end;
    return code;
  }

  #object(start: number, end: number, attributeTag: number, found: Int32Array | undefined): number {
    const reader = this.#reader;
    const attributes = this.#attributes;
    const json = this.#json;
    json.size = 0;
    json.byte(0x7b);
    let count = 0;
    reader.at = start;
    while (reader.at < end) {
      const tag = reader.tag();
      if (tag !== attributeTag) {
        reader.skip(tag, end);
        continue;
      }
      const attributeEnd = reader.end(end);
      attributes.open(attributeEnd);
      if (found && attributes.valueKind === anyValue.string) this.#promote(found);
      if (++count > attributes.maxCount) attributes.cut++;
      else attributes.writeTo(json, 0);
      reader.at = attributeEnd;
    }
    if (json.size === 1) return 0;
    json.byte(0x7d);
    return this.#dictionary.codeOf(json, 0, json.size);
  }

  #promote(found: Int32Array): void {
    const { keyStart, keyEnd, valueStart, valueEnd } = this.#attributes;
    const id = resourceKeys.find(this.#reader.bytes, keyStart, keyEnd);
    if (id < 0 || found[id] !== 0) return;
    const { bytes } = this.#reader;
    found[id] = this.#dictionary.codeOf(this.#reader, valueStart, utf8Cut(bytes, valueStart, valueEnd, maxNameBytes));
  }
}
