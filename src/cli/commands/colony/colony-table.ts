/** `coral colony`: the colony daemon and its tokens. Token commands call tools; the others manage the process on this machine. */

import type { CommandSpec } from "../../run/command-spec.ts";
import { toolCommand } from "../../run/tool-command.ts";
import { dataOutput, startOptions, stopOptions, watchedOutput } from "../shared-options.ts";

const tokenCommands: readonly CommandSpec[] = [
  toolCommand({
    name: "create",
    tool: "coral_create_token",
    summary: "Create a token and print its secret, once",
    fields: {
      kind: { default: "join" },
      permission: { default: "read", value: "level", description: "What a user token may do" },
      validFor: { name: "ttl" },
      name: { name: "note" },
    },
    options: dataOutput,
    examples: [
      ["coral colony token create", "lets one agent join within 24 hours"],
      ["coral colony token create --uses 50 --ttl 1h", "for a fleet of 50 hosts"],
      ["coral colony token create --kind user --ttl 30d --note ci", "read access for a script"],
    ],
    load: async () => ({ run: (await import("./tokens.ts")).createToken }),
  }),
  {
    name: "list",
    summary: "List tokens, without their secrets",
    options: watchedOutput,
    load: async () => ({ run: (await import("./tokens.ts")).listTokens }),
  },
  toolCommand({
    name: "revoke",
    tool: "coral_revoke_token",
    summary: "Revoke a token immediately",
    positional: ["tokenId"],
    options: dataOutput,
    load: async () => ({ run: (await import("./tokens.ts")).revokeToken }),
  }),
];

export const colonyCommands: readonly CommandSpec[] = [
  {
    name: "start",
    summary: "Start a colony",
    options: startOptions,
    examples: [
      ["coral colony start", "in this terminal, until Ctrl-C"],
      ["coral colony start --daemon", "in the background"],
      ["coral colony start --port 3001", "on another port"],
    ],
    load: async () => ({ run: (await import("../daemons.ts")).startColony }),
  },
  {
    name: "status",
    summary: "Show the colony process, its agents, where they run and warnings",
    options: watchedOutput,
    load: () => import("./colony-status.ts"),
  },
  {
    name: "stop",
    summary: "Stop a colony and wait until it has exited",
    options: stopOptions,
    load: async () => ({ run: (await import("../daemons.ts")).stopColony }),
  },
  { name: "token", summary: "Create, list and revoke tokens", commands: tokenCommands },
];
