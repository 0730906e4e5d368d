/** The documents that are made from the code; `npm run docs` writes them and `npm run check` compares them. Not part of the product. */

import { renderCliDocument } from "../cli/index.ts";
import {
  agentConfigSchema,
  agentEnvironment,
  type ConfigKey,
  cliConfigSchema,
  colonyConfigSchema,
  colonyEnvironment,
  contextEntrySchema,
  describeKeys,
} from "../config/index.ts";

/** Text by path relative to the checkout. */
export function renderDocuments(): Record<string, string> {
  return { "docs/cli.md": renderCliDocument(), "docs/config.md": renderConfigDocument() };
}

function renderConfigDocument(): string {
  return `# Configuration

<!-- Made from the schemas in src/config by \`npm run docs\`; edit those. -->

Everything works without a config file. Files are YAML; an unknown key or a bad value is refused with file, line, key and what is allowed.
Durations are written \`250ms\`, \`30s\`, \`5m\`, \`2h\`, \`7d\`; sizes \`64KiB\`, \`256MiB\`, \`2GiB\`; addresses \`host:port\`, where port \`0\` picks a free one.
A flag beats an environment variable, which beats the file, which beats the default. \`coral config validate\` checks files without
starting anything, and a daemon reads its file again on SIGHUP.

All of it lies under \`CORAL_HOME\`, by default \`~/.coral\`: directories are 0700 and files 0600.

## Colony: \`colonies/<id>/colony.yaml\`

Written by \`coral init\`.

${keyTable(describeKeys(colonyConfigSchema), colonyEnvironment)}

## Agent: \`agent/agent.yaml\`

${keyTable(describeKeys(agentConfigSchema), agentEnvironment)}

## Contexts: \`config.yaml\`

Which colonies this user's commands know. Written by \`coral init\`, \`coral up\` and \`coral config\`.

${keyTable([...describeKeys(cliConfigSchema), ...describeKeys(contextEntrySchema, "contexts[].")], [])}
`;
}

function keyTable(keys: readonly ConfigKey[], environment: readonly { variable: string; key: string }[]): string {
  const rows = keys.map((key) => {
    const variable = environment.find((entry) => entry.key === key.path)?.variable;
    const fallback = key.required ? "required" : key.default === undefined ? "" : `\`${key.default}\``;
    return `| \`${key.path}\` | ${escapeCell(key.kind)} | ${fallback} | ${escapeCell(key.description)}${variable === undefined ? "" : `; also \`${variable}\``} |`;
  });
  return ["| key | value | default | what it does |", "|---|---|---|---|", ...rows].join("\n");
}

function escapeCell(text: string): string {
  return text.replaceAll("|", "\\|");
}
