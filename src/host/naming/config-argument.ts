/** The configuration file or data directory in a program's arguments, which distinguishes copies of one program. */

import { posix } from "node:path";

export interface ConfigArguments {
  /** Absolute if the working directory is known. */
  file: string | null;
  dataDirectory: string | null;
}

const fileFlags =
  /^(?:-c|-f|-C|--?(?:config|conf|cfg|conffile)|--?config[-_.]?(?:file|path|dir)|--?configFile|--defaults(?:-extra)?-file|--settings|--properties)$/;
const dataFlags = /^(?:-D|--?data[-_.]?(?:dir|directory|path)|--datadir|--dbpath|--pgdata|--store[-_.]?path|--storage\.tsdb\.path)$/i;
const configFile = /\.(?:conf|cfg|ya?ml|toml|ini|cnf|properties)$/i;
const maxArguments = 512;

/** `-c 4` is a number of workers, `-c log=x` a setting: neither is a file. */
function isPath(value: string | undefined): value is string {
  return (
    value !== undefined &&
    value.length <= 1024 &&
    !value.startsWith("-") &&
    !/[=\s]|:\/\//.test(value) &&
    /[/.]/.test(value) &&
    /[A-Za-z/]/.test(value)
  );
}

/** `args` without the program and its script. Checks flags with their values, then operands that end like a configuration file. */
export function configArgumentsOf(args: readonly string[], directory: string | null): ConfigArguments {
  const absolute = (path: string): string =>
    path.startsWith("/") || directory === null ? posix.normalize(path) : posix.join(directory, path);
  let file: string | null = null;
  let dataDirectory: string | null = null;
  let positional: string | null = null;
  for (const [index, arg] of args.slice(0, maxArguments).entries()) {
    const equals = arg.startsWith("-") ? arg.indexOf("=") : -1;
    const flag = equals < 0 ? arg : arg.slice(0, equals);
    const value = equals < 0 ? args[index + 1] : arg.slice(equals + 1);
    if (fileFlags.test(flag) && isPath(value)) file ??= absolute(value);
    else if (dataFlags.test(flag) && isPath(value)) dataDirectory ??= absolute(value);
    else if (configFile.test(arg) && isPath(arg)) positional ??= absolute(arg);
  }
  return { file: file ?? positional, dataDirectory };
}
