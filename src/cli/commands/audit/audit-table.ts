/** Commands about what was done, and about what waits to be allowed. */

import type { CommandSpec } from "../../run/command-spec.ts";
import { agentOption, dataOutput, sinceOption, watchedOutput } from "../shared-options.ts";

const idArgument = { name: "id", description: "Id of the command, or the beginning of one", required: true };

const localOption = { name: "local", description: "Ask this machine's agent itself, also when the colony is away" };

export const auditCommands: readonly CommandSpec[] = [
  {
    name: "list",
    summary: "List who ran what, where, by which rule, and how it ended",
    description: "Commands, terminals, captures, SQL, approvals, tokens; newest first. Needs the permission admin.",
    options: [
      { name: "user", value: "text", description: "Part of who asked, such as token:ann or uid=1000" },
      { name: "command", value: "text", description: "Part of the command" },
      { name: "target", value: "text", description: "Part of the target, of the place, or of the agent's name" },
      sinceOption("24h"),
      agentOption,
      localOption,
      { name: "kind", value: "kind", description: "Only exec, shell, run, capture, sql, approval, token, agent or replay" },
      { name: "outcome", value: "outcome", description: "Only these", choices: ["denied", "failed", "open"] },
      { name: "limit", value: "n", description: "Most records shown", default: "100" },
      ...watchedOutput,
    ],
    examples: [
      ["coral audit list --since 7d --user ann", "what ann did in a week"],
      ["coral audit list --command systemctl --target web-1", "who touched services on a host"],
      ["coral audit list --outcome denied", "what was refused"],
      ["coral audit list --local", "at this machine, without the colony"],
    ],
    load: () => import("./audit-list.ts"),
  },
  {
    name: "show",
    summary: "Show every entry of one command, at the colony and at its agents",
    arguments: [idArgument],
    options: dataOutput,
    load: () => import("./audit-show.ts"),
  },
  {
    name: "verify",
    summary: "Check that nothing was changed, removed or added: every chain of hashes, here and at the agents",
    description: "Ends with 1 when something is wrong. What it can find and what not is in docs/security.md.",
    options: [
      agentOption,
      localOption,
      {
        name: "expect",
        value: "chain:entry:hash",
        collects: true,
        description: "A place that an earlier verification has printed and that you have kept elsewhere; may be given again",
      },
      ...dataOutput,
    ],
    load: () => import("./audit-verify.ts"),
  },
  {
    name: "replay",
    summary: "Show what a terminal showed",
    description:
      "On a terminal a blank pauses and goes on, q ends it. What would make the terminal do something else than draw is left out. Replaying is audited, too.",
    arguments: [
      { name: "recording", description: "Id of the command (see coral audit list --kind shell), or a .cast file", required: true },
    ],
    options: [
      { name: "speed", value: "factor", description: "2 is twice as fast", default: "1" },
      { name: "idle-limit", value: "duration", description: "Cut longer pauses to this", default: "2s" },
      { name: "to", value: "file", description: "Write the asciicast v2 file instead of showing it" },
      { name: "raw", description: "With every escape sequence; only for recordings that you trust" },
      agentOption,
    ],
    examples: [
      ["coral audit replay 3f2a9c1e --speed 4", "four times as fast"],
      ["coral audit replay 3f2a9c1e --to session.cast", "keep the file"],
      ["coral audit replay session.cast", "show a file"],
    ],
    load: () => import("./audit-replay.ts"),
  },
];

const decisionOptions = [{ name: "reason", value: "text", description: "Why; kept in the audit" }, agentOption, ...dataOutput];

export const approvalCommands: readonly CommandSpec[] = [
  {
    name: "list",
    summary: "List the commands that wait for an approval",
    options: watchedOutput,
    load: () => import("./approval-list.ts"),
  },
  {
    name: "approve",
    summary: "Let a command that waits run",
    description: "Not by the one who asked, unless approvals.allow_own is set at the colony. Needs the permission admin.",
    arguments: [idArgument],
    options: decisionOptions,
    load: () => import("./approval-approve.ts"),
  },
  {
    name: "deny",
    summary: "End a command that waits",
    arguments: [idArgument],
    options: decisionOptions,
    load: () => import("./approval-deny.ts"),
  },
];
