/** A service's name from a path: `/srv/shop/dist/server.js` is `shop`. */

import { basename, posix } from "node:path";
import { wordSet } from "../files/kernel-text.ts";

const genericNames = wordSet(`
  index main __main__ server app application start startup run cli bundle www wsgi asgi manage service daemon bootstrap
  launcher entrypoint init boot exec out a.out program config
`);
const genericDirectories = wordSet(`
  . bin sbin lib lib64 libexec usr local opt srv var etc home root tmp data mnt share app apps src dist build out output public
  www html code workspace work project current release releases server cmd target debug classes scripts script standalone .next
  .output .nuxt site-packages dist-packages versions node_modules .bin vendor services go main function deploy shared jvm
  python node
`);
const scriptExtension = /\.(?:[cm]?[jt]sx?|py[cw]?|rb|ru|pl|php|phar|jar|war|java|dll|exe|sh|lua|exs?|r|tcl)$/i;
const versionLike = /^v?\d[\d._-]*$/;

function isGenericDirectory(name: string, parent: string | undefined): boolean {
  // /home/alice names a user, not a service.
  return genericDirectories.has(name.toLowerCase()) || versionLike.test(name) || parent === "home" || parent === "Users";
}

/** The innermost directory with a specific name; null if all have generic names such as `src` or `app`. */
export function nameOfDirectory(directory: string): string | null {
  const segments = posix.normalize(directory).split("/").filter(Boolean);
  for (let index = segments.length - 1; index >= 0; index--) {
    const name = segments[index];
    if (name !== undefined && !isGenericDirectory(name, segments[index - 1])) return name;
  }
  return null;
}

/** True for generic names such as `server` or `main`. */
export function isGenericName(name: string): boolean {
  return genericNames.has(name.toLowerCase());
}

/** The file's name without its extension, or its directory's if the file's is generic. `directory` resolves relative paths. */
export function nameOfFile(path: string, directory: string | null): string {
  const full = path.startsWith("/") || directory === null ? path : posix.join(directory, path);
  const name = basename(full).replace(scriptExtension, "");
  if (name !== "" && !isGenericName(name)) return name;
  return nameOfDirectory(posix.dirname(full)) ?? name;
}
