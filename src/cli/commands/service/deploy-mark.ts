import { given } from "../../../base/given.ts";
import type { DeploymentMarked } from "../../../tools/index.ts";
import { tableOf } from "../../output/table.ts";
import { connectColony } from "../../run/connection.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showAnswer } from "../../run/show-answer.ts";

/** `coral deploy mark <service>`: tells of a deployment that cannot be seen. */
export async function run(invocation: Invocation): Promise<void> {
  const { args, options, print } = invocation;
  const colony = await connectColony(invocation);
  const version = options.text("version");
  const ago = options.durationText("ago");
  const input = {
    service: args[0],
    note: options.text("note") ?? "",
    ...given({ version, ago }),
  };
  const marked = await colony.call<DeploymentMarked>("coral_mark_deployment", input);
  await showAnswer(invocation, () => Promise.resolve(marked), {
    table: ({ deployment }) =>
      tableOf(
        [deployment],
        [
          { title: "ID", key: "id", cell: ({ id }) => id },
          { title: "SERVICE", key: "service", cell: ({ service }) => service },
          { title: "VERSION", key: "version", cell: ({ version: named }) => named },
          { title: "TIME", key: "at", cell: ({ at }) => at },
        ],
      ),
    page: ({ deployment }) => `${deployment.id}\n`,
  });
  if (invocation.format !== "table") return;
  const { deployment, isNew } = marked;
  print.note(
    isNew ? `marked; it will be compared with the time before` : `this deployment had been noticed already; the mark was added to it`,
  );
  print.note(`coral query deployments ${deployment.service}`);
}
