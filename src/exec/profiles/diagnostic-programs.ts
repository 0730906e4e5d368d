/** The programs of the read-only profile. Deny is the default: a program that is not here, or an option that is not here, does not run. */

import {
  type ArgumentGrammar,
  absolutePath,
  anyText,
  checkArguments,
  matching,
  type OptionRule,
  oneOf,
  plainWord,
  upTo,
} from "../argument-grammar.ts";
import type { RootFiles } from "../root-files.ts";
import { checkCurl, curlFirst } from "./curl-arguments.ts";
import { checkFind, checkIp, checkPs, checkStrace, checkTcpdump, rewritePs, rewriteTcpdump } from "./diagnostic-arguments.ts";
import type { DiagnosticProgram } from "./diagnostic-program.ts";
import { logReaders, textFilters } from "./text-filters.ts";

const word: OptionRule = { value: plainWord };
const text: OptionRule = { value: anyText };
const small: OptionRule = { value: upTo(1_000) };
const large: OptionRule = { value: upTo(1_000_000) };
/** Two capabilities that together show whose a socket or a file is. They would also read any file, so no file may be named to be read. */
const seesOwners = ["sys_ptrace", "dac_read_search"];

function simple(grammar: ArgumentGrammar, rest: Omit<DiagnosticProgram, "check"> = {}): DiagnosticProgram {
  return { check: (args) => checkArguments(args, grammar), ...rest };
}

const numbers = { operand: upTo(3_600), maxOperands: 2 } as const;
/** Host names and addresses. */
const hostName = matching(/^[A-Za-z0-9_][\w.:%-]{0,252}$/, "is not a host or an address");
const unit = matching(/^[\w.@:\\*-]{1,256}$/, "is not the name of a unit");

export const diagnosticPrograms: Readonly<Record<string, DiagnosticProgram>> = {
  true: simple({}),
  false: simple({}),
  echo: { check: () => undefined },
  uptime: simple({ flags: "ps", long: { pretty: "flag", since: "flag" } }),
  uname: simple({ flags: "asnrvmpio", long: { all: "flag" } }),
  nproc: simple({ long: { all: "flag" } }),
  arch: simple({}),
  whoami: simple({}),
  id: simple({ flags: "ugGnr", operand: plainWord, maxOperands: 1 }),
  w: simple({ flags: "hsfi" }),
  who: simple({ flags: "abdlqrstuTHm" }),
  // An operand sets the name.
  hostname: simple({ flags: "fiIdsaA", long: { fqdn: "flag", "all-ip-addresses": "flag", short: "flag" } }),
  // Without + the operand sets the clock; -f reads a file aloud.
  date: simple({
    flags: "uR",
    short: { I: { optional: oneOf("date", "hours", "minutes", "seconds", "ns") }, d: { value: matching(/^[\w:. +@-]{1,64}$/) } },
    long: { utc: "flag", "iso-8601": { optional: oneOf("date", "hours", "minutes", "seconds", "ns") } },
    operand: matching(/^\+[^\0]{1,128}$/, "would set the clock"),
    maxOperands: 1,
  }),
  ps: { check: checkPs, rewrite: rewritePs },
  top: simple({
    flags: "bcHi1",
    short: { n: { value: upTo(10) }, d: { value: upTo(60) }, p: word, u: word, o: word, w: { optional: upTo(512) } },
    whole: ({ options }) => (options.has("-b") && options.has("-n") ? undefined : "it is run with -b and -n only"),
  }),
  free: simple({
    flags: "bkmghtwlL",
    short: { s: small, c: small },
    long: { human: "flag", total: "flag", wide: "flag", mega: "flag", giga: "flag", si: "flag" },
  }),
  vmstat: simple({ flags: "afmnswdDt", short: { S: word }, ...numbers }),
  iostat: simple({
    flags: "cdhkmNstxyz",
    short: { p: { optional: plainWord }, o: { value: oneOf("JSON") } },
    operand: plainWord,
    maxOperands: 8,
  }),
  mpstat: simple({ flags: "Au", short: { P: word, I: word, N: word, o: { value: oneOf("JSON") } }, ...numbers }),
  // Not -e, which starts a program.
  pidstat: simple({
    flags: "dhIlrsRtuvwH",
    short: { p: word, C: word, G: word, U: { optional: plainWord } },
    long: { human: "flag" },
    ...numbers,
  }),
  df: simple({
    flags: "ahHiklPT",
    short: { t: word, x: word, B: word },
    long: { "human-readable": "flag", inodes: "flag", local: "flag", "print-type": "flag", total: "flag", output: { optional: plainWord } },
    operand: absolutePath,
  }),
  du: simple({
    flags: "abchkmsSx",
    short: { d: small, t: word },
    long: { "max-depth": small, "human-readable": "flag", summarize: "flag", "apparent-size": "flag" },
    operand: absolutePath,
  }),
  ls: simple({
    flags: "aAbBcdFghHiklLnNopqQrRsStuUvxX1Z",
    short: { w: small },
    long: {
      all: "flag",
      "full-time": "flag",
      "human-readable": "flag",
      inode: "flag",
      color: { optional: oneOf("never", "auto", "always") },
      "group-directories-first": "flag",
      sort: word,
      time: word,
      "time-style": word,
    },
    operand: absolutePath,
  }),
  stat: simple({
    flags: "Lft",
    short: { c: text },
    long: { format: text, printf: text, terse: "flag", "file-system": "flag", dereference: "flag" },
    operand: absolutePath,
  }),
  find: { check: checkFind },
  lscpu: simple({ flags: "abBcJry", long: { json: "flag", bytes: "flag" } }),
  lsblk: simple({ flags: "abdDfiJlmnOpPrStTz", short: { o: word, e: word, I: word, x: word }, operand: matching(/^\/dev\/[\w/-]+$/) }),
  lsmod: simple({}),
  findmnt: simple({ flags: "abcDefiJklmnPrRuUv", short: { o: word, t: word, T: { value: absolutePath } }, operand: absolutePath }),
  // With slashes instead of dots a name is a path, and .. in it leads to any file.
  sysctl: simple({
    flags: "aneNb",
    operand: matching(/^\w[\w-]*(?:\.[\w-]+)*$/, "is not the name of a value"),
    long: { all: "flag", values: "flag", names: "flag" },
  }),
  getent: simple({ operand: plainWord, whole: ({ operands }) => oneOfDatabases(operands[0]) }),
  lsof: simple(
    {
      flags: "anPtUlbhvRNwQ",
      short: {
        i: { optional: matching(/^[\w.:@,[\]-]{0,128}$/) },
        p: word,
        u: word,
        c: word,
        d: word,
        s: { optional: plainWord },
        F: { optional: plainWord },
        g: { optional: plainWord },
      },
      // -i, -s and -g also take the word behind them; as an operand that would be a file's name.
      operand: matching(/^(?:\/[^\0]{0,1024}|[\w.:@,[\]-]{1,128})$/),
    },
    { capabilities: seesOwners },
  ),
  ss: simple(
    {
      flags: "nralmoepiMszbTtudwxSHOQ046BWE",
      short: { f: word, A: word },
      long: Object.fromEntries(
        [
          "numeric",
          "resolve",
          "all",
          "listening",
          "options",
          "extended",
          "memory",
          "processes",
          "info",
          "summary",
          "tcp",
          "udp",
          "unix",
          "raw",
          "no-header",
          "oneline",
          "ipv4",
          "ipv6",
        ].map((name): [string, OptionRule] => [name, "flag"]),
      ),
      // A filter's words: `state established '( sport = :80 )'`.
      operand: matching(/^[\w.:*/[\]()=<>!&|, -]{1,512}$/, "is not a word of a filter"),
    },
    { capabilities: seesOwners },
  ),
  netstat: simple(
    {
      flags: "vWnNeopaltuwxrisgM46F",
      long: Object.fromEntries(
        [
          "route",
          "interfaces",
          "groups",
          "statistics",
          "numeric",
          "extend",
          "programs",
          "verbose",
          "timers",
          "listening",
          "all",
          "tcp",
          "udp",
          "unix",
          "raw",
          "wide",
          "inet",
          "inet6",
        ].map((name): [string, OptionRule] => [name, "flag"]),
      ),
    },
    { capabilities: seesOwners },
  ),
  // Without both of these it keeps a file of what it showed last.
  nstat: simple({ flags: "asznjp", operand: plainWord }, { prepend: ["-a", "-s"] }),
  ip: { check: checkIp },
  ping: simple(
    {
      flags: "nqDR46OUv",
      short: {
        c: { value: upTo(20) },
        i: { value: atLeast(0.2) },
        W: small,
        w: { value: upTo(60) },
        s: { value: upTo(9_000) },
        t: small,
        M: word,
        I: word,
      },
      operand: hostName,
      maxOperands: 1,
      whole: needs("-c", "-c with at most 20"),
    },
    { capabilities: ["net_raw"] },
  ),
  traceroute: simple(
    {
      flags: "nITUF46e",
      short: { m: { value: upTo(64) }, q: { value: upTo(5) }, w: { value: upTo(10) }, p: { value: upTo(65_535) }, i: word },
      operand: hostName,
      maxOperands: 2,
    },
    { capabilities: ["net_raw"] },
  ),
  tracepath: simple({ flags: "nb46", short: { m: { value: upTo(64) }, l: large, p: large }, operand: hostName, maxOperands: 1 }),
  // Not -f and -k, which read files.
  dig: simple(
    {
      flags: "46ruv",
      short: { b: word, p: { value: upTo(65_535) }, q: word, t: word, c: word, x: word },
      operand: matching(/^(?:@?[\w.:*/-]{1,253}|\+[\w=.-]{1,64})$/, "is not a name, a type, a server or a +option"),
      maxOperands: 12,
    },
    { prepend: ["-r"] },
  ),
  host: simple({
    flags: "aCdlrsTUvwi46",
    short: { t: word, W: { value: upTo(60) }, R: { value: upTo(10) }, c: word, N: small },
    operand: hostName,
    maxOperands: 2,
  }),
  nslookup: simple({
    operand: hostName,
    maxOperands: 2,
    whole: ({ operands }) => (operands.length === 0 ? "a name is missing" : undefined),
  }),
  curl: { check: checkCurl, prepend: curlFirst },
  tcpdump: { check: checkTcpdump, rewrite: rewriteTcpdump, capabilities: ["net_raw"], stopAfterMs: 60_000 },
  strace: { check: checkStrace, capabilities: ["sys_ptrace", "kill"], stopAfterMs: 10_000 },
  // Not -C, -c, -n, -D, -E, which change the kernel's log; not -F, which reads a file; not -H, which starts a pager.
  dmesg: simple(
    {
      flags: "TtxkueLPdrwW",
      short: { l: word, f: word },
      long: {
        ctime: "flag",
        level: word,
        facility: word,
        since: text,
        until: text,
        decode: "flag",
        nopager: "flag",
        kernel: "flag",
        "time-format": word,
        follow: "flag",
      },
    },
    { capabilities: ["syslog"], groups: ["adm"] },
  ),
  journalctl: simple(
    {
      flags: "keqarxfm",
      short: {
        u: { value: unit },
        t: word,
        n: { optional: plainWord },
        p: word,
        o: { value: outputs },
        b: { optional: plainWord },
        S: text,
        U: text,
        g: text,
      },
      long: {
        unit: { value: unit },
        "user-unit": { value: unit },
        identifier: word,
        lines: { optional: plainWord },
        priority: word,
        output: { value: outputs },
        boot: { optional: plainWord },
        since: text,
        until: text,
        grep: text,
        "case-sensitive": { optional: oneOf("true", "false") },
        "no-pager": "flag",
        "no-hostname": "flag",
        "no-full": "flag",
        all: "flag",
        quiet: "flag",
        reverse: "flag",
        utc: "flag",
        dmesg: "flag",
        follow: "flag",
        "list-boots": "flag",
        "disk-usage": "flag",
        "pager-end": "flag",
        merge: "flag",
        facility: word,
        "output-fields": word,
      },
      // The word behind -n, -b; and fields.
      operand: matching(/^(?:[A-Z_][A-Z0-9_]{0,63}=[^\0]{0,512}|\+|\d{1,7}|[a-f0-9]{32})$/, "is not FIELD=value"),
    },
    { prepend: ["--no-pager"], groups: logReaders },
  ),
  systemctl: simple(
    {
      flags: "laq",
      short: { n: { value: upTo(10_000) }, o: { value: outputs }, t: word },
      long: {
        all: "flag",
        full: "flag",
        "no-pager": "flag",
        "no-legend": "flag",
        plain: "flag",
        failed: "flag",
        lines: { value: upTo(10_000) },
        output: { value: outputs },
        state: word,
        type: word,
        quiet: "flag",
      },
      operand: unit,
      whole: ({ operands }) =>
        operands[0] !== undefined &&
        [
          "status",
          "is-active",
          "is-enabled",
          "is-failed",
          "list-units",
          "list-unit-files",
          "list-timers",
          "list-sockets",
          "list-dependencies",
          "list-jobs",
          "list-machines",
        ].includes(operands[0])
          ? undefined
          : `only status, is-active, is-enabled, is-failed and list-… are allowed`,
    },
    { prepend: ["--no-pager", "--no-ask-password"] },
  ),
  ...textFilters,
};

function outputs(value: string): string | undefined {
  return /^(?:short(?:-\w+)*|verbose|json(?:-\w+)?|cat|with-unit)$/.test(value) ? undefined : "is not an output format";
}

function atLeast(min: number) {
  return (value: string): string | undefined =>
    /^\d{1,4}(?:\.\d{1,3})?$/.test(value) && Number(value) >= min ? undefined : `is not a number of at least ${min}`;
}

function needs(option: string, what: string): NonNullable<ArgumentGrammar["whole"]> {
  return ({ options }) => (options.has(option) ? undefined : `it needs ${what}`);
}

function oneOfDatabases(database: string | undefined): string | undefined {
  return oneOf(
    "hosts",
    "ahosts",
    "ahostsv4",
    "ahostsv6",
    "services",
    "protocols",
    "networks",
    "rpc",
  )(database ?? "")?.replace(/^is/, "the database is");
}

/** What is refused and why; undefined when the profile lets it run. */
export function checkDiagnostic(name: string, args: readonly string[], files: RootFiles): string | undefined {
  const program = findDiagnostic(name);
  return program === undefined ? "it is not in the diagnostics profile" : program.check(args, files);
}

export function findDiagnostic(name: string): DiagnosticProgram | undefined {
  return Object.hasOwn(diagnosticPrograms, name) ? diagnosticPrograms[name] : undefined;
}
