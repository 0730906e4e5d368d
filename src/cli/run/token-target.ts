import { type ControlTarget, parseToken } from "../../transport/index.ts";

/** Target colony of a user token. A separate file, so that only remote calls load the token parser. */
export function tokenTarget(text: string): { colonyId: string; target: ControlTarget } {
  const token = parseToken(text, "user");
  const { colonyId, caFingerprint } = token;
  return { colonyId, target: { kind: "https", endpoint: token.endpoints[0] ?? "", caFingerprint, token: text, colonyId } };
}
