import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { probesSkipReason } from "../support/bpf-skip-reason.ts";
import { TrafficWatch } from "../support/traffic-watch.ts";
import { waitFor } from "../support/wait-for.ts";

describe("unknown protocols", () => {
  beforeEach((context) => {
    const reason = probesSkipReason();
    context.skip(reason !== undefined, reason);
  });

  it("are reported as unknown: NATS is neither HTTP despite its CONNECT, nor Redis despite its PING", async () => {
    const server = createServer((socket) => {
      socket.write('INFO {"server_id":"NAAAA","version":"2.9.10","headers":true,"max_payload":1048576}\r\n');
      socket.on("data", () => socket.write("PONG\r\n")).on("error", () => {});
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    onTestFinished(() => void server.close());
    const { port } = server.address() as AddressInfo;
    await using watch = await TrafficWatch.open();
    await watch.waitForWindows(1);
    const client = connect({ port, host: "127.0.0.1", noDelay: true });
    await once(client, "data");
    for (const text of ['CONNECT {"verbose":false,"pedantic":false,"lang":"go"}\r\n', ...Array.from({ length: 20 }, () => "PING\r\n")]) {
      client.write(text);
      await once(client, "data");
    }
    client.destroy();
    await waitFor("both ends to be reported as unknown", () => watch.lost("unknown-protocol") >= 2);
    await watch.waitForWindows(2);
    expect(watch.count((group) => group.serverPort === port)).toBe(0);
  });
});
