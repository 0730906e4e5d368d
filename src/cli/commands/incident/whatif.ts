import type { WhatIf } from "../../../tools/index.ts";
import { renderTable, tableOf, valueColumn } from "../../output/table.ts";
import { percent, rate } from "../../output/values.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showTool } from "../../run/show-tool.ts";
import { cut, wrapped } from "../diagnosis/page-text.ts";

/** `coral whatif <service> down|slow`: affected services, by how much, and what is unknown. */
export async function run(invocation: Invocation): Promise<void> {
  const { print } = invocation;
  const table = ({ affected }: WhatIf) =>
    tableOf(affected, [
      { title: "AFFECTED", key: "service", cell: ({ service }) => service },
      valueColumn("UP TO", "share", ({ share }) => share, percent, { align: "right" }),
      valueColumn("CALLS/S", "perSecond", ({ perSecond }) => perSecond, rate, { align: "right" }),
      { title: "ENTRY", key: "isEntry", cell: ({ isEntry }) => (isEntry ? "yes" : "no") },
      { title: "PATH", key: "path", cell: ({ path }) => path.join(" → ") },
      { title: "ROUTES", key: "routes", cell: ({ routes }) => routes.join(", "), wide: true },
      { title: "EARLIER", key: "fallback", cell: ({ fallback }) => fallback, wide: true },
    ]);
  await showTool(invocation, "coral_whatif", {
    table,
    page: (answer, wide) => {
      const { style } = print;
      const width = wide || print.width === undefined ? {} : { width: print.width };
      const lines = [style("bold", wrapped(answer.summary, print))];
      if (answer.affected.length > 0) lines.push("", renderTable(table(answer), { wide, style, ...width }).trimEnd());
      if (answer.entryRoutes.length > 0) {
        lines.push("", style("bold", "Entry routes at risk"));
        for (const { service, route, perSecond, isKnownToCall } of answer.entryRoutes)
          lines.push(cut(`  ${service}: ${route}  ${rate(perSecond)}/s${isKnownToCall ? "" : "  (unknown whether it calls)"}`, print));
      }
      if (answer.outsidePerSecond >= 0.05)
        lines.push("", wrapped(`${rate(answer.outsidePerSecond)}/s reach ${answer.service} from outside or from unknown callers`, print));
      for (const { service, fallback } of answer.affected)
        if (fallback !== "" && !wide) lines.push(wrapped(`${service} ${fallback}`, print));
      lines.push("", `confidence: ${answer.confidence}`);
      for (const text of answer.unknown) lines.push(wrapped(`  unknown: ${text}`, print, "    "));
      return `${lines.join("\n")}\n`;
    },
    isEmpty: () => false,
  });
}
