/** Programs about the machine, its processes and its files. */

import { absolutePath, matching, oneOf, plainWord, upTo } from "../argument-grammar.ts";
import { getentHosts, lsofHosts } from "./contacted-hosts.ts";
import { checkFind, checkPs, checkStrace, rewritePs } from "./diagnostic-arguments.ts";
import type { DiagnosticProgram } from "./diagnostic-program.ts";
import { seesOwners, simple, small, text, word } from "./option-rules.ts";

const numbers = { operand: upTo(3_600), maxOperands: 2 } as const;

export const hostPrograms: Readonly<Record<string, DiagnosticProgram>> = {
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
  // Without + the operand sets the clock; -f prints lines of a file in its errors.
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
    whole: ({ options }) => (options.has("-b") && options.has("-n") ? undefined : "only -b and -n are allowed"),
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
  // A name with slashes is used as a path, and with .. it reaches any file.
  sysctl: simple({
    flags: "aneNb",
    operand: matching(/^\w[\w-]*(?:\.[\w-]+)*$/, "is not the name of a value"),
    long: { all: "flag", values: "flag", names: "flag" },
  }),
  getent: simple({ operand: plainWord, whole: ({ operands }) => oneOfDatabases(operands[0]) }, { hosts: getentHosts }),
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
      // -i, -s and -g also take the next word; as an operand it would be a file name.
      operand: matching(/^(?:\/[^\0]{0,1024}|[\w.:@,[\]-]{1,128})$/),
    },
    { capabilities: seesOwners, hosts: lsofHosts },
  ),
  strace: { check: checkStrace, capabilities: ["sys_ptrace", "kill"], stopAfterMs: 10_000 },
};

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
