/** Real daemons discover a service on this host; `coral connect` promotes and checks it, and the colony shows it. */

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it } from "vitest";
import type { EventList, Service, ServiceList } from "../../src/tools/index.ts";
import { startAgent, startColony } from "../support/daemon.ts";
import { coralJson, runCoral } from "../support/run-coral.ts";
import { makeTestHome } from "../support/test-home.ts";
import { uniqueName } from "../support/unique-name.ts";
import { waitFor } from "../support/wait-for.ts";

const agentConfig = `
service_discovery:
  report_interval: 1s
  methods:
    - type: listening_sockets
      config:
        scan_interval: 1s
health_checks:
  interval: 1s
  unhealthy_after: 2
`;

describe("coral connect", () => {
  it("promotes a discovered service, checks it, and keeps it across a restart of the agent", async () => {
    await using home = makeTestHome();
    const options = { home: home.path };
    const shop = uniqueName("shop");
    let status = 200;
    const server = createServer((_request, response) => response.writeHead(status).end());
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    try {
      await using colony = await startColony({ home: home.path, config: "pull:\n  interval: 500ms\n" });
      const atPort = async (): Promise<Service | undefined> => {
        const { services } = await coralJson<ServiceList>(["services"], options);
        return services.find(
          (service) => service.status !== "stale" && service.ports.some((item) => item.port === port && service.service === shop),
        );
      };
      {
        await using agent = await startAgent({ home: home.path, config: agentConfig, token: await colony.createJoinToken(2) });
        await waitFor(
          "the port to be discovered",
          async () => {
            const { services } = await coralJson<ServiceList>(["network", "services", "--discovered"], options);
            return services.some((service) => service.ports.some((item) => item.port === port));
          },
          { details: () => agent.lastLines() },
        );

        const connected = await runCoral(["connect", `${shop}:${port}:/health:http`], options);
        expect(connected.stdout).toMatch(
          new RegExp(`^✓ Service '${shop}' promoted to managed\\n {2}Previously discovered via: listening_socket`),
        );
        await waitFor("the colony to know it is healthy", async () => (await atPort())?.check === "healthy");
        expect(await atPort()).toMatchObject({ service: shop, status: "managed", method: "manual", namedBy: "manual", confidence: 1 });
        const page = await runCoral(["services", shop], options);
        // Processes that run other test files are the same program, and so the same service.
        expect(page.stdout).toMatch(new RegExp(`^${shop} {2}managed · healthy · \\d+ instances? on 1 host\\n`));
        expect(page.stdout).toContain(`${process.pid}`);
        expect((await runCoral(["agent", "status"], options)).stdout).toMatch(
          new RegExp(`  ${shop}\\n    Port: +${port}\\n    PID: +${process.pid}\\b[\\s\\S]*?Status: +healthy\\n`),
        );

        status = 503;
        await waitFor("an event", async () => {
          const { events } = await coralJson<EventList>(["events", "--service", shop, "--kind", "service-health-changed"], options);
          return events.some((event) => event.message === `${shop} on port ${port} is unhealthy: HTTP 503 of /health`);
        });
        await waitFor("the colony to know it is unhealthy", async () => (await atPort())?.check === "unhealthy");
      }
      status = 204;
      await using again = await startAgent({ home: home.path });
      await waitFor("it to be healthy again", async () => (await atPort())?.check === "healthy", { details: () => again.lastLines() });

      expect((await runCoral(["disconnect", shop], options)).code).toBe(0);
      const { services } = await coralJson<{ services: { items: { name: string }[] } }>(["agent", "status"], options);
      expect(services.items.filter((service) => service.name === shop)).toEqual([]);
    } finally {
      server.close();
    }
  });
});
