/** The environment of a command: built from scratch, never the agent's own, which may hold secrets. */

import { CoralError } from "../../base/errors.ts";
import { matcherOf } from "../../base/name-pattern.ts";
import { searchPath } from "../policy/resolve-program.ts";

export interface CommandEnvironmentOptions {
  /** Variables requested by the caller. */
  requested: Readonly<Record<string, string>>;
  /** Patterns of names that the caller may set. */
  allowed: readonly string[];
  /** Under the read-only profile: only variables that cannot change which code runs or which file is read, regardless of the config. */
  isDiagnostic: boolean;
  user: { name: string; home: string };
  /** TERM; empty without a terminal. */
  terminalType: string;
  commandId: string;
}

/** Marks every process of a command, so that daemonized ones can be found. */
export const commandVariable = "CORAL_COMMAND_ID";

/** Limits of what a caller may set. The kernel's own limit, ARG_MAX, also covers argv. */
const maxVariables = 256;
/** Names and values together. */
const maxBytes = 64 * 1024;
const harmless = matcherOf(["LANG", "LANGUAGE", "LC_*", "TZ", "TERM", "COLUMNS", "LINES", "NO_COLOR"]);
/**
 * Variables that the loader, the C library or a shell reads before the program's own code. They would affect the launch steps, which run as root.
 * Callers that may run any program can set them with `env`.
 */
const startup = matcherOf(
  `LD_* DYLD_* GCONV_PATH GETCONF_DIR GLIBC_TUNABLES HOSTALIASES LOCALDOMAIN LOCPATH MALLOC_* NIS_PATH NLSPATH RESOLV_HOST_CONF RES_OPTIONS TZDIR
   BASH_ENV BASHOPTS BASH_FUNC_* ENV SHELLOPTS PS4 IFS LIBMOUNT_* ASAN_OPTIONS UBSAN_OPTIONS PERF_*`.split(/\s+/),
);
/** No slashes, so that no file is read: locales and terminals are looked up by name. */
const harmlessValue = /^[\w.@:,+=-]{0,128}$/;
/** A name below the zoneinfo directory, such as `Europe/Berlin`: no absolute path, no `..`. */
const timeZone = /^[A-Za-z][\w+-]{0,31}(?:\/[A-Za-z][\w+-]{0,31}){0,2}$/;

/** Throws `not-permitted` naming the variable. */
export function commandEnvironment(options: CommandEnvironmentOptions): Record<string, string> {
  const { requested, user, terminalType, commandId, isDiagnostic } = options;
  const environment: Record<string, string> = {
    PATH: searchPath.join(":"),
    HOME: isDiagnostic ? "/nonexistent" : user.home,
    USER: user.name,
    LOGNAME: user.name,
    SHELL: "/bin/sh",
    LANG: "C.UTF-8",
    // No pager, no editor.
    PAGER: "cat",
    SYSTEMD_PAGER: "",
    SYSTEMD_PAGERSECURE: "1",
    GIT_PAGER: "cat",
    LESSSECURE: "1",
    [commandVariable]: commandId,
  };
  if (isDiagnostic) environment["TMPDIR"] = "/nonexistent/no-temporary-files-in-the-read-only-profile";
  if (terminalType !== "") environment["TERM"] = checkedTerminal(terminalType);
  const names = Object.keys(requested);
  if (names.length > maxVariables) throw refused(names[maxVariables] ?? "", `more than ${maxVariables} variables`);
  let bytes = 0;
  const isAllowed = matcherOf(options.allowed);
  for (const name of names) {
    const value = requested[name] ?? "";
    bytes += name.length + Buffer.byteLength(value);
    if (bytes > maxBytes) throw refused(name, `the variables are longer than ${maxBytes} bytes`);
    if (!/^[A-Za-z_][A-Za-z0-9_]{0,255}$/.test(name)) throw refused(name, "not a valid name");
    if (value.includes("\0")) throw refused(name, "its value contains a NUL byte");
    if (name === commandVariable) throw refused(name, "Coral sets this variable");
    if (startup(name))
      throw refused(name, "the loader, C library or shell reads it before the program starts; use env if the policy allows it");
    if (isDiagnostic || harmless(name)) checkHarmless(name, value);
    else if (!isAllowed(name)) throw refused(name, "it is not in exec.environment_allow of the agent's config");
    environment[name] = value;
  }
  return environment;
}

function checkHarmless(name: string, value: string): void {
  if (!harmless(name)) throw refused(name, "the read-only profile allows only the language, the time zone and the terminal");
  if (name === "TZ" ? !timeZone.test(value) : !harmlessValue.test(value)) throw refused(name, "its value is not allowed");
}

function checkedTerminal(type: string): string {
  return /^[\w.+-]{1,64}$/.test(type) ? type : "dumb";
}

function refused(name: string, why: string): CoralError {
  return new CoralError({ code: "not-permitted", message: `Cannot set the variable "${name}": ${why}` });
}
