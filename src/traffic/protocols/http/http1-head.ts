/**
 * Parses heads of HTTP/1 messages, which may be truncated anywhere: the kernel emits only the start of a request. Accepts what real servers accept:
 * bare line feeds, folded lines, empty lines before the first one. Returns null for anything else.
 */

import { targetText } from "./target-text.ts";

export type HeaderField = [name: string, value: string];

export interface RequestHead {
  method: string;
  target: string;
  /** The bytes ended within the target. */
  isTargetCut: boolean;
  /** `1.0`, `1.1`; empty if the line is truncated. */
  version: string;
  /** Host name in lower case without port, from the target or the Host header; null if neither has one. */
  host: string | null;
  /** Names in lower case. A truncated last field is omitted. */
  headers: HeaderField[];
  /** The head ends with its empty line: no header is missing. */
  isComplete: boolean;
  /** Bytes up to the body; all bytes if the head is incomplete. */
  headBytes: number;
}

export interface ResponseHead {
  status: number;
  version: string;
  headers: HeaderField[];
  isComplete: boolean;
  headBytes: number;
}

/** Bytes of a head that are parsed. */
const maxHeadBytes = 16_384;
const maxHeaders = 128;
const maxMethodLength = 24;

/** Not by TextDecoder, whose "latin1" is windows-1252. */
function latin1Text(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.length, maxHeadBytes)).toString("latin1");
}

const requestLine = /^([A-Za-z!#$%&'*+.^_`|~-]+)[ \t]+([^ \t\r\n]*)(?:[ \t]+HTTP\/(\d(?:\.\d)?))?/;
const statusLine = /^HTTP\/(\d(?:\.\d)?)[ \t]+(\d{3})(?![\d])/;

/** From RFC 9110, WebDAV and related standards; other methods may be user input and become `OTHER`. */
const knownMethods = new Set(
  "GET HEAD POST PUT DELETE CONNECT OPTIONS TRACE PATCH PROPFIND PROPPATCH MKCOL COPY MOVE LOCK UNLOCK REPORT SEARCH MKCALENDAR PURGE LINK UNLINK SUBSCRIBE UNSUBSCRIBE NOTIFY MERGE CHECKOUT QUERY SOURCE BAN".split(
    " ",
  ),
);

/** The method by which requests are grouped. */
export function methodName(method: string): string {
  const upper = method.toUpperCase();
  return knownMethods.has(upper) ? upper : "OTHER";
}

/** Host name of `user@host:port`, in lower case without port and trailing dot; null for anything that is not a name or address. */
export function hostName(authority: string): string | null {
  const at = authority.lastIndexOf("@");
  const hostAndPort = (at === -1 ? authority : authority.slice(at + 1)).trim().toLowerCase();
  const match = /^(\[[0-9a-f:.]{2,45}\]|[a-z0-9_](?:[a-z0-9_.-]{0,252}))(?::\d{0,5})?$/.exec(hostAndPort);
  if (match === null) return null;
  return (match[1] ?? "").replace(/\.$/, "");
}

function skipEmptyLines(text: string): number {
  let start = 0;
  while (start < text.length && start < 8 && (text[start] === "\r" || text[start] === "\n")) start++;
  return start;
}

interface Fields {
  headers: HeaderField[];
  isComplete: boolean;
  end: number;
}

function readFields(text: string, start: number): Fields {
  const headers: HeaderField[] = [];
  let position = start;
  while (position < text.length) {
    const end = text.indexOf("\n", position);
    if (end === -1) break;
    const line = text.slice(position, end > position && text[end - 1] === "\r" ? end - 1 : end);
    position = end + 1;
    if (line === "") return { headers, isComplete: true, end: position };
    const last = headers.at(-1);
    if ((line.startsWith(" ") || line.startsWith("\t")) && last !== undefined) {
      last[1] = `${last[1]} ${line.trim()}`;
      continue;
    }
    const colon = line.indexOf(":");
    if (colon <= 0 || headers.length >= maxHeaders) continue;
    headers.push([line.slice(0, colon).trim().toLowerCase(), line.slice(colon + 1).trim()]);
  }
  return { headers, isComplete: false, end: text.length };
}

/** The first value of a header, by its name in lower case. */
export function headerOf(headers: readonly HeaderField[], name: string): string | undefined {
  return headers.find(([known]) => known === name)?.[1];
}

function hostOf(method: string, target: string, headers: readonly HeaderField[]): string | null {
  const absolute = /^[a-z][a-z0-9+.-]{0,20}:\/\/([^/?#]*)/i.exec(target);
  if (absolute !== null) return hostName(absolute[1] ?? "");
  if (method === "CONNECT") return hostName(target);
  const value = headerOf(headers, "host");
  return value === undefined ? null : hostName(value);
}

export function parseRequestHead(bytes: Uint8Array): RequestHead | null {
  const text = latin1Text(bytes);
  const start = skipEmptyLines(text);
  const lineEnd = text.indexOf("\n", start);
  const line = text.slice(start, lineEnd === -1 ? undefined : lineEnd).replace(/\r$/, "");
  const match = requestLine.exec(line);
  if (match === null) return null;
  const [whole, method = "", target = "", version] = match;
  if (method.length > maxMethodLength) return null;
  // A complete line without a version is HTTP/0.9 or invalid; a truncated one may be valid.
  if (lineEnd !== -1 && (version === undefined || target === "")) return null;
  const isTargetCut = lineEnd === -1 && version === undefined && whole.length === line.length && !/[ \t]/.test(line.at(-1) ?? "");
  const fields = lineEnd === -1 ? { headers: [], isComplete: false, end: text.length } : readFields(text, lineEnd + 1);
  return {
    method,
    target: targetText(target, isTargetCut),
    isTargetCut,
    version: version ?? "",
    host: hostOf(method, target, fields.headers),
    headers: fields.headers,
    isComplete: fields.isComplete,
    headBytes: fields.end,
  };
}

export function parseResponseHead(bytes: Uint8Array): ResponseHead | null {
  const text = latin1Text(bytes);
  const start = skipEmptyLines(text);
  const match = statusLine.exec(text.slice(start, start + 32));
  if (match === null) return null;
  const status = Number(match[2]);
  if (status < 100) return null;
  const lineEnd = text.indexOf("\n", start);
  const fields = lineEnd === -1 ? { headers: [], isComplete: false, end: text.length } : readFields(text, lineEnd + 1);
  return { status, version: match[1] ?? "", headers: fields.headers, isComplete: fields.isComplete, headBytes: fields.end };
}
