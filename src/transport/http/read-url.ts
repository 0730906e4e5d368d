/** Reads a URL from the config, such as the metrics of a program. No redirects; time and size are bounded. */

import { request as httpRequest, type IncomingMessage, type RequestOptions } from "node:http";
import { request as httpsRequest } from "node:https";
import { CoralError } from "../../base/errors.ts";

export interface ReadUrlOptions {
  url: string;
  accept: string;
  timeoutMs: number;
  maxBytes: number;
  signal: AbortSignal;
}

/** The body as UTF-8; invalid bytes become replacement characters. */
export interface ReadUrlResult {
  contentType: string;
  body: string;
}

/** Throws `unavailable` without a response or for a status other than 200, `timeout` if it takes too long, `exhausted` if it is too large. */
export async function readUrl(options: ReadUrlOptions): Promise<ReadUrlResult> {
  const timeout = AbortSignal.timeout(options.timeoutMs);
  const signal = AbortSignal.any([options.signal, timeout]);
  try {
    return await read(options, signal);
  } catch (error) {
    if (error instanceof CoralError) throw error;
    if (timeout.aborted && !options.signal.aborted)
      throw new CoralError({
        code: "timeout",
        message: `Cannot read ${options.url}: no response within ${options.timeoutMs} ms`,
        cause: error,
      });
    const why = error instanceof Error ? error.message : String(error);
    throw new CoralError({ code: "unavailable", message: `Cannot read ${options.url}: ${why}`, cause: error });
  }
}

async function read({ url, accept, maxBytes }: ReadUrlOptions, signal: AbortSignal): Promise<ReadUrlResult> {
  const response = await send(new URL(url), { headers: { accept, "user-agent": "coral" }, agent: false, signal });
  const { statusCode = 0, headers } = response;
  if (statusCode !== 200) {
    response.destroy();
    throw new CoralError({ code: "unavailable", message: `Cannot read ${url}: it returned HTTP ${statusCode}` });
  }
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    sizeBytes += chunk.length;
    if (sizeBytes > maxBytes) {
      response.destroy();
      throw new CoralError({ code: "exhausted", message: `Cannot read ${url}: it has more than ${maxBytes} bytes` });
    }
    chunks.push(chunk);
  }
  return { contentType: String(headers["content-type"] ?? ""), body: Buffer.concat(chunks).toString("utf8") };
}

function send(url: URL, options: RequestOptions): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const request = (url.protocol === "https:" ? httpsRequest : httpRequest)(url, options, resolve);
    request.on("error", reject);
    request.end();
  });
}
