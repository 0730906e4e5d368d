/** The commands of `coral config`. They work on files, without a daemon. */

import type { ArgumentSpec, CommandSpec } from "../../run/command-spec.ts";
import { dataOutput, outputOptions } from "../shared-options.ts";

const contextArgument: ArgumentSpec = { name: "name", description: "Name of the context", required: true, completes: "contexts" };

export const configCommands: readonly CommandSpec[] = [
  {
    name: "view",
    summary: "Show the effective configuration from flags, environment, files and defaults",
    arguments: [
      { name: "part", description: "Part of the configuration to show", required: false, choices: ["contexts", "colony", "agent"] },
    ],
    options: outputOptions(["yaml", "json"]),
    load: () => import("./config-view.ts"),
  },
  {
    name: "validate",
    summary: "Validate config files: every problem with its line, key and allowed values",
    arguments: [{ name: "file", description: "Config file; default: all under CORAL_HOME", required: false, completes: "files" }],
    options: [
      { name: "kind", value: "kind", description: "Kind of config file; default: by its name", choices: ["agent", "colony", "contexts"] },
    ],
    load: () => import("./config-validate.ts"),
  },
  {
    name: "get-contexts",
    summary: "List contexts",
    options: dataOutput,
    load: async () => ({ run: (await import("./contexts.ts")).getContexts }),
  },
  {
    name: "use-context",
    summary: "Set the current context",
    arguments: [contextArgument],
    load: async () => ({ run: (await import("./contexts.ts")).useContext }),
  },
  {
    name: "add-context",
    summary: "Add a colony on another machine, with a user token",
    arguments: [{ name: "name", description: "Name of the new context", required: true }],
    options: [
      { name: "token", value: "token", description: "User token; - reads it from stdin" },
      { name: "use", description: "Make it the current context" },
    ],
    examples: [["coral config add-context shop-prod --token - < token.txt", "keeps the token out of the process list"]],
    load: async () => ({ run: (await import("./contexts.ts")).addContext }),
  },
  {
    name: "delete-context",
    summary: "Delete a context and its token; the colony itself is kept",
    arguments: [contextArgument],
    load: async () => ({ run: (await import("./contexts.ts")).deleteContext }),
  },
];
