import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { streamWriteAhead } from "../../store/segments/index.ts";
import { logRecord, span } from "../../store/signals/index.ts";
import { requestKey } from "./repeated-requests.ts";

/** The kind of requests that the receiver appends; log lines that the agent reads have another kind. */
export const requestKind = 0;

/** Keys of the requests in write-ahead files. Call it before the store is opened, because that turns the files into segments. */
export function unsealedRequests(directory: string): number[] {
  const keys: number[] = [];
  for (const [signal, name] of [
    ["traces", span.name],
    ["logs", logRecord.name],
  ] as const) {
    const folder = join(directory, "wal", name);
    if (!existsSync(folder)) continue;
    for (const file of readdirSync(folder)) {
      if (!file.endsWith(".wal")) continue;
      for (const { kind, body } of streamWriteAhead(join(folder, file))) if (kind === requestKind) keys.push(requestKey(signal, body));
    }
  }
  return keys;
}
