import { readFile } from "node:fs/promises";
import { writePrivateFile } from "../../config/index.ts";
import type { ColonyLinkOptions } from "./colony-link.ts";

/** Where the colony was reached last; a small file beside the identity. */
export function rememberEndpointIn(file: string): ColonyLinkOptions["endpointMemory"] {
  return {
    read: async () => {
      try {
        return (await readFile(file, "utf8")).trim() || undefined;
      } catch {
        // Never joined, or removed by hand: the link joins again and writes it.
        return undefined;
      }
    },
    write: (endpoint) => writePrivateFile(file, `${endpoint}\n`),
  };
}
