/** Renders the documents that are generated from code, for `npm run docs`. */

import { renderCliDocument } from "../cli/index.ts";
import { renderConfigDocument } from "../config/index.ts";
import { renderProtocolTable } from "../model/protocols.ts";
import { renderViewsDocument } from "../store/sql/index.ts";

/**
 * Text by path relative to the checkout.
 * @param read returns the current text of a document; needed where only a part is generated
 */
export function renderDocuments(read: (path: string) => string): Record<string, string> {
  return {
    "docs/cli.md": renderCliDocument(),
    "docs/config.md": renderConfigDocument(),
    "docs/sql.md": renderViewsDocument(),
    "docs/traffic.md": replacePart(read("docs/traffic.md"), "protocols", renderProtocolTable()),
  };
}

/** Replaces what is between the comments `<!-- name: … -->` and `<!-- /name -->`. */
function replacePart(document: string, name: string, content: string): string {
  const part = new RegExp(`(<!-- ${name}: [^>]*-->\\n)[^]*?(\\n<!-- /${name} -->)`);
  if (!part.test(document))
    throw new Error(`Cannot render the list of ${name}: the document has no <!-- ${name}: … --> and <!-- /${name} -->`);
  return document.replace(part, (_, begin: string, end: string) => `${begin}\n${content}\n${end}`);
}
