/** Tokens that let agents join and people call tools. */

import * as z from "zod";
import { CoralError } from "../../base/errors.ts";
import type { ColonyBackend } from "../contract/backend.ts";
import { defineTool, permissions } from "../contract/define-tool.ts";
import { durationInput } from "../contract/duration-input.ts";
import { cutList } from "../contract/missing-data.ts";
import { completenessOf } from "../schemas/completeness.ts";
import { tokenCreatedSchema, tokenKindSchema, tokenListSchema, tokenRevokedSchema } from "../schemas/token.ts";

const tokensMax = 500;

export const createToken = defineTool({
  name: "coral_create_token",
  title: "Create a token",
  description: "Create a join token for agents or a user token for people and assistants. The secret is shown once.",
  input: z.object({
    kind: tokenKindSchema.describe("join: lets agents join; user: lets people and assistants call tools"),
    name: z.string().max(100).default("").describe("purpose or owner; audit records and policy rules name its user token:<note>"),
    permission: z.enum(permissions).optional().describe("what a user token may do; default: read"),
    validFor: durationInput({ minMs: 60_000, maxMs: 366 * 86_400_000 })
      .prefault("24h")
      .describe("how long it is valid: 1m to 366d"),
    uses: z
      .int()
      .min(1)
      .max(1_000_000)
      .optional()
      .describe("how often it can be used; default: 1 for join tokens, unlimited for user tokens"),
  }),
  output: tokenCreatedSchema,
  permission: "admin",
  changes: true,
  handle: async (backend: ColonyBackend, input, context) => {
    const { kind, name, validFor: validForMs } = input;
    if (kind === "join" && input.permission !== undefined) {
      throw new CoralError({ code: "invalid", message: `Cannot create a join token: "permission" is for user tokens; omit it` });
    }
    const permission = kind === "user" ? (input.permission ?? "read") : null;
    const uses = input.uses ?? (kind === "join" ? 1 : null);
    const output = await backend.createToken({ kind, name, permission, validForMs, uses }, context);
    return { output, completeness: completenessOf([]) };
  },
});

export const listTokens = defineTool({
  name: "coral_list_tokens",
  title: "List tokens",
  description: "List the tokens of this colony with permission, expiry and remaining uses; never their secrets.",
  input: z.object({}),
  output: tokenListSchema,
  permission: "admin",
  changes: false,
  handle: async (backend: ColonyBackend, _input, context) => {
    const { items, notes } = cutList(await backend.tokens(context), tokensMax, "tokens", "revoke unused ones");
    return { output: { tokens: items }, completeness: completenessOf(notes) };
  },
});

export const revokeToken = defineTool({
  name: "coral_revoke_token",
  title: "Revoke a token",
  description: "Revoke a token immediately. Agents that joined with it keep their certificates.",
  input: z.object({ tokenId: z.string().min(1).describe("id of the token, as coral colony token list shows it") }),
  output: tokenRevokedSchema,
  permission: "admin",
  changes: true,
  handle: async (backend: ColonyBackend, input, context) => ({
    output: await backend.revokeToken(input.tokenId, context),
    completeness: completenessOf([]),
  }),
});
