import * as z from "zod";
import type { ColonyBackend } from "../contract/backend.ts";
import { defineTool } from "../contract/define-tool.ts";
import { completenessOf } from "../schemas/completeness.ts";
import { tokenRevokedSchema } from "../schemas/token.ts";

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
