/** Resolves the program name of a command to the file that would run. */

import { CoralError } from "../../base/errors.ts";
import { nameOfPath, type RootFiles } from "./root-files.ts";

/** The file that a command would run, in the target's view. The policy decides by these facts. */
export interface Program {
  /** The name as written in the command. */
  requested: string;
  /** Base name, which selects the function of a multi-call program. */
  name: string;
  /** Where it was found, without following links. */
  path: string;
  /** The file itself. */
  realPath: string;
  realName: string;
  /** Only root can change it; see ResolvedFile. */
  isTrusted: boolean;
  /** Machine code, not a script that an interpreter reads. */
  isNative: boolean;
  /** A multi-call program such as busybox: one file, many programs, selected by name. */
  isMultiCall: boolean;
  isSetuid: boolean;
}

/** Searched in this order; the caller's PATH is ignored. */
export const searchPath: readonly string[] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/** Files that select their function by argv[0]. */
const multiCall = /^(?:busybox(?:\.\w+)?|toybox|coreutils|sbase-box|ubase-box|kmod|uutils|hush)$/;
/** x for owner, group or others. */
const executable = 0o111;
/** The setuid and setgid bits. */
const setId = 0o6000;
const elf = Buffer.from([0x7f, 0x45, 0x4c, 0x46]);

export interface ResolveProgramOptions {
  files: RootFiles;
  /** For `./tool`: absolute. Absent: such names are refused. */
  workingDirectory?: string;
}

/** Throws `not-found` if there is none, and `not-permitted` if it is not an executable file. */
export function resolveProgram(requested: string, { files, workingDirectory }: ResolveProgramOptions): Program {
  const isPath = requested.includes("/");
  if (isPath && !requested.startsWith("/") && workingDirectory === undefined) {
    throw new CoralError({ code: "not-permitted", message: `Cannot run "${requested}": use a program's name or an absolute path` });
  }
  if (files.isUnseen) return unseenProgram(requested);
  const absolute = requested.startsWith("/") ? requested : `${workingDirectory ?? ""}/${requested}`;
  const candidates = isPath ? [absolute] : searchPath.map((directory) => `${directory}/${requested}`);
  for (const path of candidates) {
    const file = files.resolve(path);
    if (!file?.stats.isFile() || (file.stats.mode & executable) === 0) continue;
    const realName = nameOfPath(file.path);
    return {
      requested,
      name: nameOfPath(requested),
      path,
      realPath: file.path,
      realName,
      isTrusted: file.isTrusted,
      isNative: files.head(file.path, elf.length)?.equals(elf) === true,
      isMultiCall: multiCall.test(realName),
      isSetuid: (file.stats.mode & setId) !== 0,
    };
  }
  throw new CoralError({
    code: "not-found",
    message: isPath
      ? `Cannot run "${requested}": there is no such program at the target`
      : `Cannot run "${requested}": there is no such program at the target in ${searchPath.join(", ")}`,
  });
}

/** The runtime resolves the name itself; the container's image decides which file it is. */
function unseenProgram(requested: string): Program {
  const name = nameOfPath(requested);
  const path = requested.includes("/") ? requested : `/bin/${requested}`;
  return {
    requested,
    name,
    path,
    realPath: requested,
    realName: name,
    isTrusted: true,
    isNative: true,
    isMultiCall: false,
    isSetuid: false,
  };
}
