import { once } from "node:events";
import { createServer } from "node:net";
import { describe, expect, it } from "vitest";
import { systemClock } from "../base/clock.ts";
import { silentLogger } from "../base/log.ts";
import { createHostReader } from "../host/index.ts";
import { listener } from "../store/index.ts";
import { scriptedReader } from "./host-snapshot.fixture.ts";
import { createListenerCollector } from "./listener-collector.ts";

describe("createListenerCollector()", () => {
  it("makes rows with the time of the scan", async () => {
    const reader = scriptedReader([], {
      listeners: [
        {
          service: "shop",
          namedBy: "script",
          address: "0.0.0.0",
          port: 80,
          networkNamespace: 1,
          pid: null,
          startTicks: null,
          exe: null,
          userId: 3,
          cgroup: null,
          containerId: null,
        },
      ],
      withoutProcess: 1,
      deniedProcesses: 12,
      cut: 4,
    });
    const clock = { wallMs: () => 2.5, monotonicMs: () => 7.4 };
    const collector = createListenerCollector({ reader, clock, log: silentLogger });
    expect(collector.notes()).toEqual([]);
    expect(await collector.sample()).toEqual([
      {
        at: 2500,
        mono_ms: 7,
        service: "shop",
        named_by: "script",
        protocol: "tcp",
        address: "0.0.0.0",
        port: 80,
        pid: null,
        start_ticks: null,
        exe: null,
        user_id: 3,
        cgroup: null,
      },
    ]);
    expect(collector.notes()).toEqual([
      expect.stringMatching(/^1 listening socket has no known process; /),
      expect.stringMatching(/^12 processes/),
      expect.stringMatching(/^4 sockets/),
    ]);
  });

  it("sees this process listen, with every column filled", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    try {
      const { port } = server.address() as { port: number };
      const rows = await createListenerCollector({ reader: createHostReader(), clock: systemClock, log: silentLogger }).sample();
      const own = rows.filter((row) => row.port === port);
      expect(own).toMatchObject([{ address: "127.0.0.1", pid: process.pid, exe: process.execPath, user_id: process.geteuid!() }]);
      for (const row of rows) expect(Object.keys(row).sort()).toEqual([...Object.keys(listener.columns), "at", "mono_ms"].sort());
    } finally {
      server.close();
    }
  });
});
