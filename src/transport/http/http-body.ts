import { CoralError } from "../../base/errors.ts";
import type { HttpRequest } from "./http-handler.ts";

/** Reads the whole body. Throws `exhausted` above `maxBytes`, and `timeout` for a slow client; the rest is then left unread. */
export function readBody(request: HttpRequest, maxBytes: number, timeoutMs: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let sizeBytes = 0;
    const settle = (): void => {
      clearTimeout(timer);
      request.off("data", onData).off("end", onEnd).off("error", onLost).off("close", onLost);
    };
    const fail = (error: CoralError): void => {
      settle();
      request.pause();
      reject(error);
    };
    const onData = (chunk: Buffer): void => {
      sizeBytes += chunk.length;
      if (sizeBytes > maxBytes) fail(tooLarge(maxBytes));
      else chunks.push(chunk);
    };
    const onEnd = (): void => {
      settle();
      resolve(Buffer.concat(chunks));
    };
    const onLost = (): void => fail(new CoralError({ code: "cancelled", message: "Cannot read the request: the caller disconnected" }));
    const timer = setTimeout(() => {
      fail(new CoralError({ code: "timeout", message: `Cannot read the request: its body did not arrive within ${timeoutMs} ms` }));
    }, timeoutMs);
    if (Number(request.headers["content-length"]) > maxBytes) {
      fail(tooLarge(maxBytes));
      return;
    }
    request.on("data", onData).on("end", onEnd).on("error", onLost).on("close", onLost);
  });
}

function tooLarge(maxBytes: number): CoralError {
  return new CoralError({
    code: "exhausted",
    message: `Cannot read the request: its body is larger than ${maxBytes} bytes`,
    details: { maxBytes },
  });
}
