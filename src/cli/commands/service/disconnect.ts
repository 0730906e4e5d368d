import { CoralError } from "../../../base/errors.ts";
import { escapeText } from "../../../base/escape-text.ts";
import type { ManagedServiceList, ServiceDisconnected } from "../../../tools/index.ts";
import { tableOf } from "../../output/table.ts";
import { askAgent, callAgent } from "../../run/connection.ts";
import type { Invocation } from "../../run/invocation.ts";
import { showAnswer } from "../../run/show-answer.ts";

/** `coral disconnect <name>…`: changes nothing when one of the names is unknown. */
export async function run(invocation: Invocation): Promise<void> {
  const { args, print } = invocation;
  const names = [...new Set(args.filter((name) => name !== undefined))];
  const ask = async (): Promise<{ services: ServiceDisconnected[] }> => {
    const { services } = await askAgent<ManagedServiceList>(invocation, "/v1/services");
    const known = new Set(services.map((service) => service.name));
    const unknown = names.filter((name) => !known.has(name));
    if (unknown.length > 0) throw notConnected(unknown, [...known]);
    const gone: ServiceDisconnected[] = [];
    for (const name of names)
      gone.push(await callAgent<ServiceDisconnected>(invocation, { method: "DELETE", path: `/v1/services/${encodeURIComponent(name)}` }));
    return { services: gone };
  };
  await showAnswer(invocation, ask, {
    table: ({ services }) =>
      tableOf(services, [
        { title: "SERVICE", key: "name", cell: (service) => service.name },
        { title: "PORTS", key: "ports", cell: (service) => service.ports.join(","), align: "left" },
      ]),
    page: ({ services }) =>
      services
        .map(
          (service) =>
            `${print.style("green", "✓")} Service '${escapeText(service.name)}' is no longer managed\n  No more health checks; it remains a discovered service while it runs\n`,
        )
        .join(""),
  });
}

/** Lists the known names, because a typo is the usual reason. */
function notConnected(unknown: readonly string[], known: readonly string[]): CoralError {
  const shown =
    known.length === 0
      ? "no service is connected"
      : `connected services: ${known.slice(0, 10).join(", ")}${known.length > 10 ? ", …" : ""}`;
  return new CoralError({
    code: "not-found",
    message: `Cannot disconnect service "${unknown.join('", "')}": not connected at the agent of this host; ${shown}`,
  });
}
