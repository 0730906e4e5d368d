/** The documents that are made from the code, for `npm run docs`. */

import { renderCliDocument } from "../cli/index.ts";
import { renderConfigDocument } from "../config/index.ts";

/** Text by path relative to the checkout. */
export function renderDocuments(): Record<string, string> {
  return { "docs/cli.md": renderCliDocument(), "docs/config.md": renderConfigDocument() };
}
