/** Converts Node's request and response to the web's Request and Response. */

import type { ServerResponse } from "node:http";
import type { HttpRequest, HttpResponse } from "./http-handler.ts";

/** `signal` aborts when the caller disconnects. */
export function webRequestOf(request: HttpRequest, url: URL, body: Buffer, signal: AbortSignal): Request {
  const headers = new Headers();
  for (const [name, value] of Object.entries(request.headers)) {
    // HTTP/2 carries :method and the like among the headers.
    if (value === undefined || name.startsWith(":")) continue;
    for (const one of Array.isArray(value) ? value : [value]) headers.append(name, one);
  }
  const method = request.method ?? "GET";
  const hasBody = method !== "GET" && method !== "HEAD" && body.length > 0;
  return new Request(url, { method, headers, signal, ...(hasBody ? { body: new Uint8Array(body) } : {}) });
}

/** HTTP/2 forbids these, and HTTP/1.1 sets its own. */
const connectionHeaders = new Set(["connection", "keep-alive", "transfer-encoding", "upgrade"]);

/** Streams the reply with backpressure; when the caller disconnects, the source is cancelled. */
export async function sendWebResponse(response: HttpResponse, reply: Response): Promise<void> {
  // The two response types have overloads that no union can call.
  const out = response as ServerResponse;
  for (const [name, value] of reply.headers) if (!connectionHeaders.has(name)) out.appendHeader(name, value);
  out.statusCode = reply.status;
  if (!reply.body) {
    out.end();
    return;
  }
  // An event stream may be silent at first, and the client waits for the headers.
  out.flushHeaders();
  const reader = reply.body.getReader();
  const gone = new Promise<"gone">((resolve) => {
    out.once("close", () => resolve("gone"));
  });
  for (;;) {
    const next = await Promise.race([reader.read(), gone]);
    if (next === "gone") {
      await reader.cancel();
      return;
    }
    if (next.done) break;
    if (!out.write(next.value)) {
      const drained = new Promise<"drained">((resolve) => {
        out.once("drain", () => resolve("drained"));
      });
      await Promise.race([drained, gone]);
    }
  }
  out.end();
}
