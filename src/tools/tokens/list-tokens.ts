import * as z from "zod";
import type { ColonyBackend } from "../contract/backend.ts";
import { defineTool } from "../contract/define-tool.ts";
import { cutList } from "../contract/missing-data.ts";
import { completenessOf } from "../schemas/completeness.ts";
import { tokenListSchema } from "../schemas/token.ts";

const tokensMax = 500;

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
