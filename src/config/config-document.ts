/** docs/config.md, made from the schemas. */

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
    "Everything lives under `CORAL_HOME` (default `~/.coral`; under sudo the home of the user who called it). Config files are YAML and every key is",
    "optional unless marked. What applies, first to last: command-line flags, environment variables, the file, the defaults.",
    "Durations are written `250ms`, `30s`, `5m`, `2h`, `7d`; sizes `64KiB`, `256MiB`, `2GiB`. A key or value that does not fit is refused with file, line,",
    "key and what is allowed; `coral config validate` checks without starting anything, `coral config view` shows what applies.",
    "A running daemon reads its file again on SIGHUP; what needs a restart is said in its log.",
    "",
    "```",
    "$CORAL_HOME/",
    "  config.yaml                 contexts of the CLI",
    "  tokens/<context>.token      user tokens of colonies elsewhere",
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
    "| `CORAL_HOME` | where everything is kept |",
    "| `CORAL_COLONY` | the colony of CLI commands: a context's name or a colony's id |",
    "| `CORAL_TOKEN` | a user token: CLI commands call the colony that it names, without a context |",
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
