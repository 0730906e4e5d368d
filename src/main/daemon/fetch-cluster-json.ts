import { Agent, get } from "node:https";
import { CoralError } from "../../base/errors.ts";

const maxBytes = 16 * 1024 * 1024;

/** GET from a Kubernetes API. Not Node's fetch, which cannot use the cluster's own CA. */
export function fetchClusterJson(request: { url: string; token: string; caPem: string; signal: AbortSignal }): Promise<unknown> {
  const { url, token, caPem, signal } = request;
  return new Promise((resolve, reject) => {
    const agent = new Agent({ ca: caPem, keepAlive: false });
    const sent = get(url, { agent, signal, headers: { authorization: `Bearer ${token}`, accept: "application/json" } }, (response) => {
      const pieces: Buffer[] = [];
      let length = 0;
      response.on("data", (piece: Buffer) => {
        length += piece.length;
        if (length > maxBytes)
          sent.destroy(new CoralError({ code: "exhausted", message: `the response is larger than ${maxBytes} bytes` }));
        else pieces.push(piece);
      });
      response.on("error", reject);
      response.on("end", () => {
        if (response.statusCode !== 200) {
          reject(new CoralError({ code: "unavailable", message: `the API returned status ${response.statusCode}` }));
          return;
        }
        try {
          resolve(JSON.parse(Buffer.concat(pieces).toString("utf8")));
        } catch (error) {
          reject(new CoralError({ code: "invalid", message: "the API's response is not valid JSON", cause: error }));
        }
      });
    });
    sent.on("error", reject);
  });
}
