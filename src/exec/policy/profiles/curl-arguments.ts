/**
 * curl, restricted to GET and HEAD over http and https. Response bodies are shown only for localhost and for numeric addresses that are not link-local:
 * a name could resolve to a cloud's metadata service, which returns credentials. HEAD is allowed for any host.
 */

import {
  type ArgumentGrammar,
  checkArguments,
  matching,
  oneOf,
  readArguments,
  type UsedArguments,
  upTo,
  type ValueCheck,
} from "../argument-grammar.ts";

/** No user part, no brackets except around an address, no braces, no backslash: parsers interpret these differently. */
const url = /^https?:\/\/([a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?|\[[0-9a-f:.]{2,45}\])(?::\d{1,5})?(?:[/?][\w\-.~%!$&'()*+,;=:@/?]*)?$/i;
/** An IPv4 address in its usual form. Others (`127.1`, octal, hexadecimal) are refused, because resolvers read them differently. */
const quad = /^(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)$/;
/** Some headers override the method, and metadata services require one; only headers that do neither are allowed. */
const harmlessHeader =
  /^(?:accept|accept-encoding|accept-language|user-agent|cache-control|range|if-none-match|if-modified-since|traceparent): ?[\x20-\x7e]{0,512}$/i;

function urlProblem(value: string): string | undefined {
  if (!url.test(value)) return "is not a plain http or https URL";
  return undefined;
}

function showsNoSecret(value: string): boolean {
  const host = (url.exec(value)?.[1] ?? "").toLowerCase();
  if (host === "localhost") return true;
  if (quad.test(host))
    return (
      !host.startsWith("169.254.") &&
      host !== "100.100.100.200" &&
      host !== "168.63.129.16" &&
      host !== "192.0.0.192" &&
      !host.startsWith("0.")
    );
  return host === "[::1]";
}

const format: ValueCheck = (value) =>
  value.startsWith("@") || /%output|%\{(?:header_json|onerror)/i.test(value.replaceAll(/\s/g, "")) || value.length > 1_024
    ? "is not allowed"
    : undefined;

function wholeProblem({ options, operands }: UsedArguments): string | undefined {
  const isHead = options.has("-I") || options.has("--head");
  if (operands.length === 0) return "a URL is missing";
  const outside = operands.find((value) => !showsNoSecret(value));
  if (outside !== undefined && !isHead)
    return `"${outside}" may be requested with -I only; responses are shown for localhost and numeric addresses`;
  return undefined;
}

const grammar: ArgumentGrammar = {
  flags: "IsSvik46",
  short: {
    H: { value: matching(harmlessHeader, "is not among the headers that may be sent") },
    m: { value: upTo(60) },
    o: { value: oneOf("/dev/null") },
    w: { value: format },
    A: { value: matching(/^[\x20-\x7e]{1,256}$/) },
    X: { value: oneOf("GET", "HEAD") },
  },
  long: {
    head: "flag",
    silent: "flag",
    "show-error": "flag",
    verbose: "flag",
    include: "flag",
    insecure: "flag",
    ipv4: "flag",
    ipv6: "flag",
    compressed: "flag",
    fail: "flag",
    "http1.1": "flag",
    http2: "flag",
    header: { value: matching(harmlessHeader, "is not among the headers that may be sent") },
    "max-time": { value: upTo(60) },
    "connect-timeout": { value: upTo(60) },
    output: { value: oneOf("/dev/null") },
    "write-out": { value: format },
    request: { value: oneOf("GET", "HEAD") },
    "user-agent": { value: matching(/^[\x20-\x7e]{1,256}$/) },
  },
  operand: urlProblem,
  maxOperands: 4,
  whole: wholeProblem,
};

/** The reason for a refusal; undefined if it is allowed. */
export function checkCurl(args: readonly string[]): string | undefined {
  return checkArguments(args, grammar);
}

/** Hosts of the URLs. */
export function curlHosts(args: readonly string[]): string[] {
  return readArguments(args, grammar).operands.map((value) => url.exec(value)?.[1] ?? value);
}

/** No config file, no globbing, no other protocol, no proxy, no redirects, bounded time. */
export const curlFirst: readonly string[] = ["-q", "--globoff", "--proto", "=http,https", "--noproxy", "*", "--max-time", "60"];
