/** `coral audit` and `coral approval`. Both need the permission admin, except with --local on the agent's own machine. */

import type { CommandSpec, OptionSpec } from "../../run/command-spec.ts";
import { toolCommand } from "../../run/tool-command.ts";
import { agentOption, dataOutput, watchedOutput } from "../shared-options.ts";

const localOption: OptionSpec = { name: "local", description: "Read from this machine's agent, even when the colony is unreachable" };

export const auditCommands: readonly CommandSpec[] = [
  toolCommand({
    name: "list",
    tool: "coral_list_audit",
    summary: "List who ran what, where, by which rule, and how it ended",
    description: "Covers commands, terminals, captures, SQL, approvals and tokens, newest first. Needs the permission admin.",
    fields: {
      kind: { value: "kind", description: "Only this kind: exec, shell, run, capture, sql, approval, token, agent or replay" },
    },
    options: [localOption, ...watchedOutput],
    examples: [
      ["coral audit list --since 7d --user ann", "what ann did in a week"],
      ["coral audit list --command systemctl --target web-1", "who touched services on a host"],
      ["coral audit list --outcome denied", "what was denied"],
      ["coral audit list --local", "on this machine, without the colony"],
    ],
    load: () => import("./audit-list.ts"),
  }),
  toolCommand({
    name: "show",
    tool: "coral_get_audit",
    summary: "Show every entry of one command, from the colony and its agents",
    positional: ["id"],
    options: dataOutput,
    load: () => import("./audit-show.ts"),
  }),
  toolCommand({
    name: "verify",
    tool: "coral_verify_audit",
    summary: "Verify that no audit entry was changed, removed or added, at the colony and at the agents",
    description: "Checks every hash chain and exits with 1 on a problem. docs/security.md lists what it detects and what it cannot.",
    fields: {
      expect: {
        value: "chain:entry:hash",
        description: "Entry printed by an earlier verification and kept elsewhere; may be repeated",
      },
    },
    options: [localOption, ...dataOutput],
    load: () => import("./audit-verify.ts"),
  }),
  {
    name: "replay",
    summary: "Replay a recorded terminal session",
    description:
      "On a terminal, space pauses and resumes, q quits. Escape sequences that do more than draw are removed. Every replay is audited.",
    arguments: [
      { name: "recording", description: "Id of the command (see coral audit list --kind shell), or a .cast file", required: true },
    ],
    options: [
      { name: "speed", value: "factor", description: "Playback speed; 2 is twice as fast", default: "1" },
      { name: "idle-limit", value: "duration", description: "Shorten longer pauses to this", default: "2s" },
      { name: "to", value: "file", description: "Write the asciicast v2 file instead of playing it" },
      { name: "raw", description: "Keep every escape sequence; only for recordings that you trust" },
      agentOption,
    ],
    examples: [
      ["coral audit replay 3f2a9c1e --speed 4", "four times as fast"],
      ["coral audit replay 3f2a9c1e --to session.cast", "save the recording"],
      ["coral audit replay session.cast", "play a saved recording"],
    ],
    load: () => import("./audit-replay.ts"),
  },
];

export const approvalCommands: readonly CommandSpec[] = [
  {
    name: "list",
    summary: "List commands that wait for approval",
    options: watchedOutput,
    load: () => import("./approval-list.ts"),
  },
  toolCommand({
    name: "approve",
    tool: "coral_decide_approval",
    summary: "Approve a waiting command",
    description: "Callers cannot approve their own commands unless approvals.allow_own is set at the colony. Needs the permission admin.",
    positional: ["id"],
    omit: ["approve"],
    options: dataOutput,
    load: async () => ({ run: (await import("./decide-approval.ts")).approve }),
  }),
  toolCommand({
    name: "deny",
    tool: "coral_decide_approval",
    summary: "Deny a waiting command",
    positional: ["id"],
    omit: ["approve"],
    options: dataOutput,
    load: async () => ({ run: (await import("./decide-approval.ts")).deny }),
  }),
];
