import { version } from "../../base/version.ts";
import { tableOf } from "../output/table.ts";
import type { Invocation } from "../run/invocation.ts";
import { showAnswer } from "../run/show-answer.ts";

/** `coral version`: loads nothing else, so it also serves as the benchmark of start-up time. */
export async function run(invocation: Invocation): Promise<void> {
  const facts = { version, node: process.versions.node, platform: process.platform, arch: process.arch };
  await showAnswer(invocation, () => Promise.resolve(facts), {
    table: (answer) =>
      tableOf(
        [answer],
        [
          { title: "VERSION", key: "version", cell: (row) => row.version },
          { title: "NODE", key: "node", cell: (row) => row.node },
          { title: "PLATFORM", key: "platform", cell: (row) => row.platform },
          { title: "ARCH", key: "arch", cell: (row) => row.arch },
        ],
      ),
    page: (answer, wide) =>
      wide ? `coral ${answer.version} (node ${answer.node}, ${answer.platform} ${answer.arch})\n` : `coral ${answer.version}\n`,
  });
}
