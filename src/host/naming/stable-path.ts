/** Paths without the parts that a deployment changes: `/opt/api/releases/20240101/server.js` and `/opt/api/current/server.js` are one place. */

import { posix } from "node:path";
import { wordSet } from "../files/kernel-text.ts";

/** The directory below one of these is a release, with any name. */
const releaseParents = wordSet("release releases versions deployments deploys builds revisions");
/** Links to the release in use. */
const releaseLinks = wordSet("current latest active live");
/** `v1.2.3`, `1.4.2-rc1`, `v2`, `20240101`, `20240101T120000`, `2024-01-31`. Short plain numbers are copies or ports: `/srv/shard/1`. */
const version = /^(?:v\d+(?:[._]\d+)*|\d+(?:\.\d+)+|\d{8,}|\d{8}[-_T]?\d{4,6}Z?|\d{4}-\d{2}-\d{2})(?:[-_+.T][\w.+:-]*)?$/i;
const commit = /^[0-9a-f]{40}$/;
/** `-1.4.2`, `-1.4.2-SNAPSHOT`, `-v2.0.0-rc.1`, `-20240101` at the end of a name. */
const versionSuffix =
  /[-_.](?:v?\d+(?:\.\d+)+|\d{8,})(?:[-.+](?:snapshot|release|final|ga|all|boot|exec|alpha|beta|rc|m|sp|build|dev|post)?[.\d]*)*$/i;
/** `python3.11`, `node20.1`; not `node2`. */
const numberedProgram = /^([a-z]+)\d+(?:\.\d+)+$/i;
const extension = /\.[a-z]{1,5}$/i;

/** `api.jar` of `api-1.4.2.jar`, `api` of `api-1.4.2`, `python` of `python3.11`. */
export function withoutRelease(name: string): string {
  const numbered = numberedProgram.exec(name)?.[1];
  if (numbered !== undefined) return numbered;
  const end = extension.exec(name)?.[0] ?? "";
  const stem = name.slice(0, name.length - end.length);
  const bare = stem.replace(versionSuffix, "");
  // Of `api-1.4.beta`, the extension belongs to the version.
  return bare !== "" && bare !== stem ? bare + end : name.replace(versionSuffix, "") || name;
}

/** An absolute path in its stable form; others as they are. */
export function stablePath(path: string): string {
  if (!path.startsWith("/")) return path;
  const kept: string[] = [];
  const segments = posix.normalize(path).split("/").filter(Boolean);
  for (let index = 0; index < segments.length; index++) {
    const segment = segments[index] ?? "";
    const isLast = index === segments.length - 1;
    if (releaseParents.has(segment.toLowerCase()) && !isLast) index++;
    else if (releaseLinks.has(segment.toLowerCase()) || version.test(segment) || commit.test(segment)) continue;
    else kept.push(withoutRelease(storeName(kept, segment)));
  }
  return `/${kept.join("/")}`;
}

/** Nix puts a hash before each name. */
function storeName(parents: readonly string[], segment: string): string {
  return parents.length === 2 && parents[0] === "nix" && parents[1] === "store" ? segment.replace(/^[0-9a-z]{32}-/, "") : segment;
}
