/** The schema of `config.yaml`, for `coral config validate`, precise errors and the docs. Commands read the file through `contexts.ts`. */

import * as z from "zod";
import { loadConfig } from "../schema/load-config.ts";
import { text } from "../schema/schema-parts.ts";

const contextSchema = z.strictObject({
  name: text("Name for --colony and use-context, such as shop-dev"),
  colony_id: text("The colony's id", {
    expression: /^[a-z0-9](?:[a-z0-9-]{0,78}[a-z0-9])?$/,
    message: "a colony id holds lower-case letters, digits and dashes, such as shop-dev-1a2b3c",
  }),
  endpoint: text("host:port of a remote colony; not needed for one under this CORAL_HOME", {
    expression: /^\S+:\d{1,5}$/,
    message: "write host:port, such as colony.example.com:9000",
  }).optional(),
  ca_fingerprint: text("SHA-256 of the colony's CA certificate", {
    expression: /^[0-9a-f]{64}$/,
    message: "write 64 hexadecimal digits in lower case",
  }).optional(),
  token_file: text("File with the user token").optional(),
});

export const cliConfigSchema = z
  .strictObject({
    current_context: text("The context that commands use without --colony").optional(),
    contexts: z
      .array(contextSchema)
      .meta({ kind: "list of contexts", description: "Colonies this user knows: name, colony_id, endpoint, ca_fingerprint, token_file" })
      .prefault([]),
  })
  .superRefine((config, issues) => {
    for (const [index, context] of config.contexts.entries()) {
      if (config.contexts.findIndex((other) => other.name === context.name) === index) continue;
      issues.addIssue({ code: "custom", path: ["contexts", index, "name"], message: "another context has this name" });
    }
  });

/** Keys of one entry of `contexts`. */
export const contextEntrySchema = contextSchema;

/** Throws `invalid` with line, column and key if the file is invalid; a missing file is valid. */
export async function checkContextsFile(file: string): Promise<void> {
  await loadConfig({ what: "contexts", file, required: false, schema: cliConfigSchema });
}
