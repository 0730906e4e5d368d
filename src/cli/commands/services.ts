import type { Service, ServiceList } from "../../tools/index.ts";
import { connectColony } from "../connection.ts";
import type { Invocation } from "../invocation.ts";
import { type Column, tableOf } from "../output/table.ts";
import { showAnswer } from "../show-answer.ts";
import { healthCell } from "./health-style.ts";

const limit = 1_000;

/** `coral services`. */
export async function run(invocation: Invocation): Promise<void> {
  const { args, options } = invocation;
  const colony = await connectColony(invocation);
  const agent = options.text("agent");
  const input = { limit, ...(args[0] === undefined ? {} : { match: args[0] }), ...(agent === undefined ? {} : { agent }) };
  await showAnswer(invocation, () => colony.call<ServiceList>("coral_list_services", input), {
    table: (answer) => tableOf(answer.services, columns),
    empty: args[0] === undefined ? "No service has been found yet; agents look for listening ports once a minute" : "No service matches",
  });
}

const columns: readonly Column<Service>[] = [
  { title: "SERVICE", key: "service", cell: (service) => service.service },
  {
    title: "PORTS",
    key: "ports",
    cell: (service) => service.ports.map(({ port, protocol }) => (protocol.startsWith("tcp") ? port : `${port}/${protocol}`)).join(","),
    align: "left",
  },
  { title: "INSTANCES", key: "instances", cell: (service) => service.instances },
  { title: "HEALTH", key: "health", cell: (service) => healthCell(service.health) },
  { title: "HOSTS", key: "hosts", cell: (service) => service.agents.map((agent) => agent.hostname).join(","), align: "left" },
  { title: "NAMED BY", key: "namedBy", cell: (service) => service.namedBy, wide: true },
  { title: "ADDRESSES", key: "addresses", cell: (service) => service.agents.flatMap((agent) => agent.addresses).join(","), wide: true },
  { title: "PIDS", key: "pids", cell: (service) => service.agents.flatMap((agent) => agent.pids).join(","), wide: true, align: "left" },
  { title: "EXECUTABLE", key: "exe", cell: (service) => service.agents.find((agent) => agent.exe !== null)?.exe, wide: true },
];
