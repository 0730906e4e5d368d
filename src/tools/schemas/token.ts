import * as z from "zod";
import { isoTimeSchema } from "./agent.ts";

export const tokenKindSchema = z.enum(["join", "user"]);
export type TokenKind = z.infer<typeof tokenKindSchema>;

/** A token without its secret, which the colony does not keep. */
export const tokenInfoSchema = z.object({
  tokenId: z.string(),
  kind: tokenKindSchema,
  name: z.string(),
  /** Permission of its holder; null for join tokens. */
  permission: z.enum(["read", "debug", "exec", "admin"]).nullable(),
  createdAt: isoTimeSchema,
  expiresAt: isoTimeSchema,
  /** Null: unlimited until it expires. */
  usesLeft: z.number().nullable(),
  state: z.enum(["usable", "expired", "used-up", "revoked"]),
});
export type TokenInfo = z.infer<typeof tokenInfoSchema>;

/** Output of coral_create_token: the only time the secret is shown. */
export const tokenCreatedSchema = tokenInfoSchema.extend({ token: z.string() });
export type TokenCreated = z.infer<typeof tokenCreatedSchema>;

/** Output of coral_list_tokens. */
export const tokenListSchema = z.object({ tokens: z.array(tokenInfoSchema) });

/** Output of coral_revoke_token. */
export const tokenRevokedSchema = z.object({ tokenId: z.string(), revokedAt: isoTimeSchema });
export type TokenRevoked = z.infer<typeof tokenRevokedSchema>;

/** Output of coral_revoke_agent. */
export const agentRevokedSchema = z.object({ agentId: z.string(), hostname: z.string(), revokedAt: isoTimeSchema });
export type AgentRevoked = z.infer<typeof agentRevokedSchema>;
