import type { FileOwner } from "./open-owned.ts";

/** The user who invoked sudo, if this process runs as root because of it; otherwise undefined. */
export function sudoOwner(
  env: Readonly<Record<string, string | undefined>> = process.env,
  effectiveUid: number | undefined = process.geteuid?.(),
): FileOwner | undefined {
  if (effectiveUid !== 0) return undefined;
  const uid = idOf(env["SUDO_UID"]);
  const gid = idOf(env["SUDO_GID"]);
  if (uid === undefined || gid === undefined || uid === 0) return undefined;
  return { uid, gid };
}

function idOf(text: string | undefined): number | undefined {
  return text !== undefined && /^\d{1,10}$/.test(text) ? Number(text) : undefined;
}
