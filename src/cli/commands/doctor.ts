import { escapeText } from "../../base/escape-text.ts";
import type { StyleName } from "../output/style.ts";
import { tableOf } from "../output/table.ts";
import type { Invocation } from "../run/invocation.ts";
import type { DoctorCheck } from "../run/runtime.ts";
import { showAnswer } from "../run/show-answer.ts";

const stateStyles: Record<DoctorCheck["state"], StyleName> = { ok: "green", degraded: "yellow", unavailable: "red" };
const stateMarks: Record<DoctorCheck["state"], string> = { ok: "✓", degraded: "!", unavailable: "✗" };

/** `coral doctor`: runs the checks in this process, so it needs no daemon and sees what the calling user may see. */
export async function run(invocation: Invocation): Promise<void> {
  const ask = async (): Promise<{ checks: DoctorCheck[] }> => ({ checks: await invocation.runtime.doctor() });
  await showAnswer(invocation, ask, {
    table: ({ checks }) =>
      tableOf(checks, [
        { title: "AREA", key: "area", cell: (check) => check.area },
        { title: "CHECK", key: "name", cell: (check) => check.name },
        { title: "STATE", key: "state", cell: (check) => ({ text: check.state, style: stateStyles[check.state] }) },
        { title: "DETAIL", key: "detail", cell: (check) => check.detail },
        { title: "FIX", key: "fix", cell: (check) => check.fix },
      ]),
    page: ({ checks }) => page(invocation, checks),
  });
}

function page({ print }: Invocation, checks: readonly DoctorCheck[]): string {
  const lines: string[] = [];
  const nameWidth = Math.max(0, ...checks.map((check) => check.name.length));
  for (const area of new Set(checks.map((check) => check.area))) {
    lines.push(print.style("bold", area));
    for (const check of checks.filter((item) => item.area === area)) {
      const mark = print.style(stateStyles[check.state], stateMarks[check.state]);
      lines.push(`  ${mark} ${check.name.padEnd(nameWidth)}  ${escapeText(check.detail)}`);
      if (check.fix !== undefined)
        lines.push(`    ${" ".repeat(nameWidth)}  ${print.style("cyan", "fix:")} ${print.commands(escapeText(check.fix))}`);
    }
  }
  const count = (state: DoctorCheck["state"]): number => checks.filter((check) => check.state === state).length;
  lines.push("", `${count("ok")} ok, ${count("degraded")} degraded, ${count("unavailable")} unavailable`);
  return `${lines.join("\n")}\n`;
}
