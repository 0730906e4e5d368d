import { escapeText } from "../../base/escape-text.ts";
import { listLocalColonies, readContexts } from "../../config/index.ts";
import type { ManagedServiceList, ToolListEntry } from "../../tools/index.ts";
import { askAgent, connectColony } from "../run/connection.ts";
import { homeOf, type Invocation } from "../run/invocation.ts";

/** The shell blocks on completion, so a slow daemon must not delay it. */
const timeoutMs = 700;

/** `coral __complete <kind>`: prints one name per line, and nothing on failure. */
export async function run(invocation: Invocation): Promise<void> {
  const signal = AbortSignal.any([invocation.io.signal, AbortSignal.timeout(timeoutMs)]);
  let names: string[];
  try {
    names = await namesOf({ ...invocation, io: { ...invocation.io, signal } });
  } catch {
    // An error would be printed into the command line that the user is typing.
    return;
  }
  // The shell inserts a candidate into the command line, so drop names with blanks, quotes or control characters.
  const safe = names.filter((name) => /^[\w.@:/-]+$/.test(name) && escapeText(name) === name);
  invocation.print.answer(safe.map((name) => `${name}\n`).join(""));
}

async function namesOf(invocation: Invocation): Promise<string[]> {
  switch (invocation.args[0]) {
    case "contexts":
      return (await readContexts(homeOf(invocation))).contexts.map((context) => context.name);
    case "colonies":
      return listLocalColonies(homeOf(invocation));
    case "agents": {
      const colony = await connectColony(invocation);
      const { agents } = await colony.call("coral_list_agents", { limit: 1_000 });
      return [...new Set(agents.map((agent) => agent.hostname))];
    }
    case "tools": {
      const colony = await connectColony(invocation);
      const { tools } = await colony.get<{ tools: ToolListEntry[] }>("/v1/tools");
      return tools.map((tool) => tool.name);
    }
    case "services": {
      const colony = await connectColony(invocation);
      const { services } = await colony.call("coral_list_services", { limit: 1_000 });
      return services.map((service) => service.service);
    }
    case "managed-services": {
      const { services } = await askAgent<ManagedServiceList>(invocation, "/v1/services");
      return [...new Set(services.map((service) => service.name))];
    }
    default:
      return [];
  }
}
