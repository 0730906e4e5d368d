/** Generates docs/config.md from the schemas. */

import { agentConfigSchema, agentEnvironment } from "./agent/agent-config.ts";
import { colonyConfigSchema, colonyEnvironment } from "./colony/colony-config.ts";
import { cliConfigSchema, contextEntrySchema } from "./home/cli-config.ts";
import { type ConfigKey, describeKeys } from "./schema/describe-schema.ts";

type Variables = readonly { variable: string; key: string }[];

export function renderConfigDocument(): string {
  const lines = [
    "# Configuration",
    "",
    "<!-- Made from src/config by `npm run docs`; edit the schemas there. -->",
    "",
    "Everything lives under `CORAL_HOME` (default `~/.coral`; under sudo, in the home of the invoking user). Config files are YAML and every key is",
    "optional unless marked. Precedence, highest first: command-line flags, environment variables, the file, the defaults.",
    "Durations are written `250ms`, `30s`, `5m`, `2h`, `7d`; sizes `64KiB`, `256MiB`, `2GiB`. An invalid key or value is rejected with file, line,",
    "key and allowed values; `coral config validate` checks a file without starting anything, `coral config view` shows the effective config.",
    "A running daemon reloads its file on SIGHUP and logs which changes need a restart.",
    "",
    "```",
    "$CORAL_HOME/",
    "  config.yaml                 contexts of the CLI",
    "  tokens/<context>.token      user tokens of remote colonies",
    "  colonies/<id>/              colony.yaml ca/ data/colony.duckdb ranges/ colony.sock colony.pid logs/colony.log",
    "  agent/                      agent.yaml agent-id services.json identity/ data/agent.duckdb agent.sock agent.pid logs/agent.log",
    "```",
    "",
    ...section("Colony: `colonies/<id>/colony.yaml`", describeKeys(colonyConfigSchema), colonyEnvironment),
    ...section("Agent: `agent/agent.yaml`", describeKeys(agentConfigSchema), agentEnvironment),
    ...section("Contexts: `config.yaml`", [...describeKeys(cliConfigSchema), ...describeKeys(contextEntrySchema, "contexts[].")], []),
    "## Environment variables without a key",
    "",
    "| variable | meaning |",
    "|---|---|",
    "| `CORAL_HOME` | directory of all files |",
    "| `CORAL_COLONY` | the colony for CLI commands: a context name or colony id |",
    "| `CORAL_TOKEN` | a user token: CLI commands call the colony named in it, without a context |",
    "| `CORAL_JOIN_TOKEN` | join token of an agent that has not joined yet |",
  ];
  return `${lines.join("\n")}\n`;
}

function section(title: string, keys: readonly ConfigKey[], variables: Variables): string[] {
  const rows = keys.map((key) => {
    const value = key.required ? "**required**" : key.default === undefined ? "" : `\`${key.default}\``;
    const variable = variables.find((item) => item.key === key.path)?.variable;
    const description = variable === undefined ? key.description : `${key.description} (\`${variable}\`)`;
    return `| \`${key.path}\` | ${key.kind.replaceAll("|", "\\|")} | ${value} | ${description} |`;
  });
  return [`## ${title}`, "", "| key | type | default | meaning |", "|---|---|---|---|", ...rows, ""];
}
