/** Programs about logs and services of the machine. */

import { matching, oneOf, plainWord, upTo } from "../argument-grammar.ts";
import type { DiagnosticProgram } from "./diagnostic-program.ts";
import { logReaders, simple, text, word } from "./option-rules.ts";

const unit = matching(/^[\w.@:\\*-]{1,256}$/, "is not the name of a unit");

export const logPrograms: Readonly<Record<string, DiagnosticProgram>> = {
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
      // The value of -n or -b, or a field match.
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
};

function outputs(value: string): string | undefined {
  return /^(?:short(?:-\w+)*|verbose|json(?:-\w+)?|cat|with-unit)$/.test(value) ? undefined : "is not an output format";
}
