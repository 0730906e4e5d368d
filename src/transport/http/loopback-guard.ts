/**
 * Plain HTTP on loopback trusts every local program, including browsers, which run foreign code: a web page may point its host name at 127.0.0.1 (DNS
 * rebinding) or just send requests there. So the Host header must name a loopback host, and so must the origin.
 */

import { isLoopbackAddress } from "../trust/endpoint.ts";
import type { HttpRequest } from "./http-handler.ts";

/** Undefined if the request is allowed, otherwise the reason. */
export function loopbackProblem(request: HttpRequest): string | undefined {
  const { host, origin } = request.headers;
  if (host === undefined || !isLoopbackUrl(`http://${host}`))
    return `the Host header must be localhost or a loopback address, it is "${host ?? ""}"`;
  if (origin !== undefined && !isLoopbackUrl(origin)) return `requests from web pages of "${origin}" are not accepted`;
  return undefined;
}

/** True for `http(s)://localhost…`, `127.x.x.x` and `[::1]`, with any port and without path or user. */
export function isLoopbackUrl(text: string): boolean {
  if (!/^https?:\/\/[^/?#@\\\s]+$/i.test(text) || !URL.canParse(text)) return false;
  const { hostname } = new URL(text);
  return hostname === "localhost" || isLoopbackAddress(hostname.replace(/^\[(.*)\]$/, "$1"));
}
