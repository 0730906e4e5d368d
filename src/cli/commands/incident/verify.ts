import type { Verification } from "../../../tools/index.ts";
import type { StyleName } from "../../output/style.ts";
import { renderTable, tableOf } from "../../output/table.ts";
import { localTime } from "../../output/values.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showTool } from "../../run/show-tool.ts";
import { cut, wrapped } from "../diagnosis/page-text.ts";
import { indicator, measure } from "./incident-text.ts";

type Verified = Verification["symptoms"][number];

const styles: Record<Verification["verdict"], StyleName> = {
  resolved: "green",
  improved: "yellow",
  unchanged: "red",
  worse: "red",
  "too-early": "cyan",
};

/** `coral verify <incident>`: the verdict first, then the figures. The exit code lets a deployment pipeline wait for `resolved`. */
export async function run(invocation: Invocation): Promise<void> {
  const { print } = invocation;
  const table = ({ symptoms }: Verification) =>
    tableOf(symptoms, [
      { title: "SERVICE", key: "service", cell: ({ service }) => service },
      { title: "INDICATOR", key: "indicator", cell: (one) => indicator(one) },
      { title: "BEFORE", key: "before", cell: (one) => value(one, "before"), raw: ({ before }) => before.value, align: "right" },
      { title: "DURING", key: "during", cell: (one) => value(one, "during"), raw: ({ during }) => during.value, align: "right" },
      { title: "AFTER", key: "after", cell: (one) => value(one, "after"), raw: ({ after }) => after.value, align: "right" },
      { title: "REQUESTS", key: "requests", cell: ({ after }) => after.requests, align: "right" },
      { title: "VERDICT", key: "verdict", cell: ({ verdict }) => ({ text: words(verdict), style: styles[verdict] }) },
    ]);
  await showTool(invocation, "coral_verify", {
    table,
    page: (answer) => {
      const width = print.width === undefined ? {} : { width: print.width };
      const cause = answer.cause === null ? [] : [wrapped(`still found: ${answer.cause}`, print)];
      return `${[
        `${print.style("bold", answer.id)}  ${print.style(styles[answer.verdict], words(answer.verdict))}`,
        wrapped(answer.summary, print),
        ...cause,
        "",
        renderTable(table(answer), { style: print.style, ...width }).trimEnd(),
        "",
        cut(`fixed: ${localTime(answer.fixedAt, Date.now())}, ${answer.fixedBy}`, print),
      ].join("\n")}\n`;
    },
    exitCode: ({ verdict }) => (verdict === "resolved" ? 0 : 1),
    after: ({ verdict, id }) => {
      if (verdict === "too-early") print.note(`run coral verify ${id} again in a minute; set the time of the fix with --fixed 5m`);
    },
  });
}

const words = (verdict: Verification["verdict"]): string => verdict.replace("-", " ");
const value = ({ measure: kind, ...one }: Verified, when: "before" | "during" | "after"): string => measure(one[when].value, kind);
