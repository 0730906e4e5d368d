import type { ArgumentSpec, CommandSpec } from "../../run/command-spec.ts";
import { dataOutput, outputOptions } from "../shared-options.ts";

const contextArgument: ArgumentSpec = { name: "name", description: "Name of the context", required: true, completes: "contexts" };

export const configCommands: readonly CommandSpec[] = [
  {
    name: "view",
    summary: "Show what applies, from flags, environment, files and defaults",
    arguments: [{ name: "part", description: "Only this one", required: false, choices: ["contexts", "colony", "agent"] }],
    options: outputOptions(["yaml", "json"]),
    load: () => import("./config-view.ts"),
  },
  {
    name: "validate",
    summary: "Check config files: every problem with its line, key and what is allowed",
    arguments: [{ name: "file", description: "Default: every config file under CORAL_HOME", required: false, completes: "files" }],
    options: [
      { name: "kind", value: "kind", description: "What the file is; default: by its name", choices: ["agent", "colony", "contexts"] },
    ],
    load: () => import("./config-validate.ts"),
  },
  { name: "get-contexts", summary: "List the contexts", options: dataOutput, load: () => import("./config-get-contexts.ts") },
  {
    name: "use-context",
    summary: "Make a context the current one",
    arguments: [contextArgument],
    load: () => import("./config-use-context.ts"),
  },
  {
    name: "add-context",
    summary: "Add a colony that runs elsewhere, with a user token",
    arguments: [{ name: "name", description: "Name of the new context", required: true }],
    options: [
      { name: "token", value: "token", description: "User token; - reads it from stdin" },
      { name: "use", description: "Make it the current context" },
    ],
    examples: [["coral config add-context shop-prod --token - < token.txt", "keeps the token out of the process list"]],
    load: () => import("./config-add-context.ts"),
  },
  {
    name: "delete-context",
    summary: "Forget a context and its token; the colony itself stays",
    arguments: [contextArgument],
    load: () => import("./config-delete-context.ts"),
  },
];
