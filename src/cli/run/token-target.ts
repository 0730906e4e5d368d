import { type ControlTarget, parseToken } from "../../transport/index.ts";

/** The colony that a user token names. Its own file: only remote calls load the token's parser. */
export function tokenTarget(text: string): { colonyId: string; target: ControlTarget } {
  const token = parseToken(text, "user");
  const { colonyId, caFingerprint } = token;
  return { colonyId, target: { kind: "https", endpoint: token.endpoints[0] ?? "", caFingerprint, token: text, colonyId } };
}
