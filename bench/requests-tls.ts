/** Overhead of TLS plaintext tracing: CPU per request of nginx and Node with all hooks on and off in turns, under load from wrk. */

import { setTimeout as sleep } from "node:timers/promises";
import { measureOnOff } from "./lib/on-off.ts";
import { type Figure, figureOf, isSmall, report } from "./lib/report.ts";
import { otherWatchers, RequestWatch, requireBpf } from "./lib/request-watch.ts";
import { quartilesOf } from "./lib/spread.ts";
import { nodeRole, serveNode, startNginx, startNode, type WebServer } from "./lib/web-servers.ts";
import { role, roleArguments } from "./lib/worker.ts";
import { Wrk } from "./lib/wrk.ts";

/** Node collects garbage in bursts and the overhead is a small part of its CPU, so a stable median needs more slices. */
const slices = isSmall ? { nginx: 3, node: 3 } : { nginx: 12, node: 120 };
const sliceMs = isSmall ? 600 : 800;
const connections = 16;
/** Node optimises its code in the first seconds of load. */
const warmMs = isSmall ? 1_500 : 5_000;

async function measure(): Promise<void> {
  const figures: Figure[] = [];
  for (const [name, start] of [
    ["nginx", startNginx],
    ["node", startNode],
  ] as const) {
    await using server = await start({ isTls: true });
    await using watch = await RequestWatch.open("sockets", true);
    figures.push(...(await measureServer(name, server, watch)));
  }
  report({
    name: "requests-tls",
    sizes: { nginxSlices: slices.nginx, nodeSlices: slices.node, sliceMs, connections },
    figures,
    notes: otherWatchers(),
  });
}

async function measureServer(name: keyof typeof slices, server: WebServer, watch: RequestWatch): Promise<Figure[]> {
  const load = new Wrk({ url: server.url, seconds: 300, connections });
  await sleep(warmMs);
  let links = 0;
  const results = await measureOnOff({
    server,
    slices: slices[name],
    sliceMs,
    variants: [
      {
        name: "plaintext",
        on: async () => {
          await watch.attach();
          links = watch.tlsLinks;
        },
        off: () => watch.detach(),
      },
    ],
  });
  // Connections are older than the probes, so some requests have no route; seeing any proves that plaintext was read.
  watch.look();
  const seen = watch.count(server.port, "server");
  await load.stop();
  if (links === 0 || seen === 0) throw new Error(`No plaintext of ${name} was read: ${links} links, ${seen} requests`);
  const { offUs = [], ratios = [], addedUs = [] } = results.get("plaintext") ?? {};
  return [
    figureOf(`${name} with TLS: CPU per request without hooks`, "µs", quartilesOf(offUs)),
    figureOf(`${name} with TLS: CPU per request, all hooks`, "×", quartilesOf(ratios)),
    figureOf(`${name} with TLS: added by all hooks`, "µs", quartilesOf(addedUs), { kind: "at-most", value: 5 }),
  ];
}

if (role === nodeRole) await serveNode(roleArguments);
else {
  requireBpf();
  await measure();
}
