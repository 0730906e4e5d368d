/** Authorization at the colony, all of it: maps a caller to a principal, or throws. Deny by default. */

import { CoralError } from "../../base/errors.ts";
import { permits } from "../../tools/index.ts";
import type { Authorize } from "../../transport/index.ts";
import type { TokenStore } from "../registry/token-store.ts";

export function createAuthorize(tokens: TokenStore): Authorize {
  return async (caller, permission) => {
    switch (caller.kind) {
      case "local":
        // The socket has checked the uid: only the colony's owner and root can connect, and both can read its keys anyway.
        return { name: `local:uid=${caller.uid}` };
      case "bearer": {
        const held = await tokens.permissionOf(caller.token);
        if (permits(held.permission, permission)) return { name: `token:${held.holder}` };
        throw new CoralError({
          code: "not-permitted",
          message: `Cannot do this with token ${held.tokenId}: permission "${permission}" is required, and the token has "${held.permission}"`,
        });
      }
      case "agent":
        throw new CoralError({
          code: "not-permitted",
          message: `Cannot do this as agent "${caller.agentId}": agents may only join, renew and register`,
        });
      case "refused":
        throw new CoralError({ code: "unauthenticated", message: `Cannot accept the certificate: ${caller.reason}` });
      case "anonymous":
        throw new CoralError({
          code: "unauthenticated",
          message:
            "Cannot serve this without a token: send `Authorization: Bearer <token>`; create one with `coral colony token create --kind user`",
        });
    }
  };
}
