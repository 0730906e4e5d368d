/** Programs of the read-only profile with their own argument grammar. */

import { absolutePath, anyText, checkArguments, matching, oneOf, plainWord, upTo, type ValueCheck } from "../argument-grammar.ts";

/** Fields of `ps -o`, without those that show environments. */
const fields = matching(/^(?!.*env)[\w%,=:. +-]{1,512}$/i, "is not a list of fields");
/** `--sort=-%mem`: a hyphen reverses the order. */
const order: ValueCheck = (value) => fields(value.replace(/^[-+]/, ""));
/** BSD options of `ps` without a hyphen, such as `aux`; without `e`, which shows environments. */
const bsdLetters = /^[aAxuwfljvsmHrTcLhnS]{1,16}$/;
/** `-aux`, which procps accepts as `aux`. */
const classicDash = /^-aux(?:w{1,2}|f)?$/;

const modernFlags = "AaedfFljLTHMwyNZc";
/** As a separate word it would show environments if `ps` read it as BSD letters. */
const showsEnvironments = /^(?=.*e)[acefghjlmnrsuvwxAHLSTXZ]+$/;

/**
 * The BSD letter `e` shows environments, and `ps` re-reads all options as BSD letters if it cannot parse them. So `-e` is run as
 * `-A` (see rewritePs), and no other word that could be read as BSD letters may contain an `e`.
 */
export function checkPs(args: readonly string[]): string | undefined {
  const names = { value: matching(/^[\w.,@-]{1,256}$/) };
  const numbers = { value: matching(/^\d{1,10}(?:,\d{1,10})*$/, "is not a list of numbers") };
  const modern = args.filter((arg) => !classicDash.test(arg));
  // `-aux` is itself ambiguous: no other ambiguous word may accompany it.
  const beside = modern.length === args.length ? undefined : modern.find((arg) => !/^--(?:sort|cols|no-headers)\b/.test(arg));
  if (beside !== undefined) return `"${beside}" cannot be combined with -aux; write aux`;
  const attached = modern.find((arg, index) => /^-[^-]*[uUgGtC].+/.test(arg) && modern[index - 1] !== "--sort");
  if (attached !== undefined) return `"${attached}": write the value of an option as a separate word`;
  const letters = modern.find((arg, index) => showsEnvironments.test(arg) && /^-\w*[ug]$/.test(modern[index - 1] ?? ""));
  if (letters !== undefined) return `"${letters}" could be parsed as option letters; write --user or --group before it`;
  return checkArguments(modern, {
    flags: modernFlags,
    short: {
      o: { value: fields },
      O: { value: fields },
      p: numbers,
      q: numbers,
      u: names,
      U: names,
      g: names,
      G: names,
      C: names,
      t: names,
      s: numbers,
    },
    long: {
      forest: "flag",
      headers: "flag",
      "no-headers": "flag",
      "no-heading": "flag",
      pid: numbers,
      ppid: numbers,
      sid: numbers,
      sort: { value: order },
      format: { value: fields },
      user: names,
      group: names,
      cols: { value: upTo(10_000) },
      columns: { value: upTo(10_000) },
      rows: { value: upTo(10_000) },
    },
    operand: (value) => (bsdLetters.test(value) || /^\d{1,10}(?:,\d{1,10})*$/.test(value) ? undefined : "is not allowed"),
  });
}

/** `-A` means the same as `-e` but is not a BSD letter: `ps` fails instead of showing environments. */
export function rewritePs(args: readonly string[]): string[] {
  const leading = new RegExp(`^-[${modernFlags}]+`);
  return args.map((arg, index) => (args[index - 1] === "--sort" ? arg : arg.replace(leading, (flags) => flags.replaceAll("e", "A"))));
}

const ipObjects = [
  "a",
  "addr",
  "address",
  "l",
  "link",
  "r",
  "route",
  "n",
  "neigh",
  "neighbour",
  "rule",
  "ru",
  "maddr",
  "maddress",
  "ntable",
  "tcp_metrics",
];
const ipWord = matching(/^[A-Za-z0-9][\w.:/@%-]{0,64}$/, "is not allowed");

/** Objects and verbs must be written out: `ip` accepts prefixes, and some of them change something. */
export function checkIp(args: readonly string[]): string | undefined {
  let at = 0;
  for (; args[at]?.startsWith("-") === true; at++) {
    const option = args[at] ?? "";
    if (
      !/^-{1,2}(?:4|6|0|s|stats|statistics|d|details|j|json|p|pretty|br|brief|o|oneline|r|resolve|h|human|ts|t|timestamp|iec|c=never|color=never|N|Numeric)$/.test(
        option,
      )
    )
      return `option "${option}" is not allowed`;
  }
  const [object = "", verb, ...rest] = args.slice(at);
  if (object === "netns")
    return verb === undefined || (verb === "list" && rest.length === 0) ? undefined : "only list is allowed for netns";
  const problem = oneOf(...ipObjects)(object);
  if (problem !== undefined) return `"${object}" ${problem}`;
  if (verb === undefined) return undefined;
  const isGet = verb === "get" && ["r", "route"].includes(object);
  if (!isGet && verb !== "show" && verb !== "list") return `"${verb}" is not allowed; only show, list and route get are`;
  for (const word of rest) {
    const wrong = ipWord(word);
    // The word after `type` becomes part of a library's file name.
    if (wrong !== undefined || word.includes("..") || word === "save" || word === "restore" || word === "showdump")
      return `"${word}" ${wrong ?? "is not allowed"}`;
  }
  return undefined;
}

/** Only the summary table (-c) of running processes. */
export function checkStrace(args: readonly string[]): string | undefined {
  return checkArguments(args, {
    flags: "cfw",
    short: {
      p: { value: matching(/^\d{1,10}(?:,\d{1,10})*$/, "is not a process id") },
      S: { value: oneOf("time", "calls", "errors", "name", "nothing", "max-time", "min-time", "avg-time") },
      U: { value: plainWord },
      e: { value: matching(/^(?:trace=)?%?[a-z0-9_]{1,64}(?:,%?[a-z0-9_]{1,64}){0,64}$/, "is not a list of system calls") },
    },
    whole: ({ options }) => (options.has("-c") && options.has("-p") ? undefined : "only -c and -p are allowed"),
  });
}

const findFlags = new Set([
  "-print",
  "-print0",
  "-ls",
  "-empty",
  "-xdev",
  "-mount",
  "-depth",
  "-prune",
  "-readable",
  "-executable",
  "-nouser",
  "-nogroup",
  "-true",
  "-false",
  "-quit",
  "-daystart",
  "-not",
  "-a",
  "-o",
  "-and",
  "-or",
  "!",
  "(",
  ")",
  ",",
]);
const findValues: Readonly<Record<string, (value: string) => string | undefined>> = {
  ...Object.fromEntries(["-name", "-iname", "-path", "-ipath", "-regex", "-iregex", "-lname", "-wholename"].map((name) => [name, anyText])),
  ...Object.fromEntries(["-type", "-xtype"].map((name) => [name, matching(/^[bcdpfls](?:,[bcdpfls])*$/)])),
  ...Object.fromEntries(
    ["-size", "-mtime", "-mmin", "-atime", "-amin", "-ctime", "-cmin", "-inum", "-links", "-uid", "-gid", "-used"].map((name) => [
      name,
      (value: string) => (/^[+-]?\d{1,12}[bcwkMG]?$/.test(value) ? undefined : "is not a number"),
    ]),
  ),
  ...Object.fromEntries(["-user", "-group", "-fstype"].map((name) => [name, plainWord])),
  ...Object.fromEntries(["-maxdepth", "-mindepth"].map((name) => [name, upTo(64)])),
  "-perm": (value) => (/^[-/]?[0-7augorwxst+=,]{1,32}$/.test(value) ? undefined : "is not a mode"),
  "-newer": absolutePath,
  "-newermt": matching(/^[\w:. +-]{1,64}$/),
  // Its directives show metadata of files, never contents.
  "-printf": anyText,
};

/** Names and metadata of files. Without -exec, -ok, -delete, -fprint and -files0-from, which run, remove, write or read. */
export function checkFind(args: readonly string[]): string | undefined {
  let at = 0;
  for (; at < args.length && !/^[-(!),]/.test(args[at] ?? ""); at++) {
    const problem = absolutePath(args[at] ?? "");
    if (problem !== undefined) return `"${args[at]}" ${problem}`;
  }
  if (at === 0) return "a directory is missing";
  for (; at < args.length; at++) {
    const word = args[at] ?? "";
    if (findFlags.has(word)) continue;
    const check = Object.hasOwn(findValues, word) ? findValues[word] : undefined;
    if (check === undefined) return `"${word}" is not allowed`;
    const value = args[++at];
    if (value === undefined) return `"${word}" needs a value`;
    const problem = check(value);
    if (problem !== undefined) return `"${word}": "${value}" ${problem}`;
  }
  return undefined;
}
