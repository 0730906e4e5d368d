/** More kinds of requests than the kernel's tables have room for: each request is counted or told as lost, and others have their names again soon. */

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { beforeEach, expect, it } from "vitest";
import { probesSkipReason } from "../support/bpf-skip-reason.ts";
import { RequestObserver } from "../support/request-observer.ts";
import { runProgram } from "../support/run-program.ts";

/** One connection; a route of its own for each request, or always the same. */
const client = `
import http.client, sys
asked = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
for turn in range(int(sys.argv[2])):
    digits = "".join(chr(ord("a") + int(digit)) for digit in str(turn))
    asked.request("GET", sys.argv[3] + (digits if sys.argv[3].endswith("-") else ""))
    asked.getresponse().read()
`;

/** The same request to each of many addresses. */
const traveller = `
import http.client, sys
for turn in range(int(sys.argv[2])):
    asked = http.client.HTTPConnection("127.1.%d.%d" % (turn >> 8, turn & 255), int(sys.argv[1]))
    asked.request("GET", "/")
    asked.getresponse().read()
    asked.close()
`;

beforeEach((context) => {
  const reason = probesSkipReason("python3");
  context.skip(reason !== undefined, reason);
});

it("counts every request of a service with too many routes, and names those that come after", async () => {
  const server = createServer((_request, response) => response.end("ok")).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  await using observer = await RequestObserver.open({ settings: { maxRequestKinds: 64 } });
  const counted = () => observer.of(port, "client").reduce((sum, { count }) => sum + count, 0);
  const ask = (times: number, target: string) =>
    runProgram("python3", ["-c", client, String(port), String(times), target], { env: { PATH: process.env["PATH"] ?? "" } });
  try {
    await ask(1_000, "/word-");
    observer.look(true);
    expect(observer.losses.get("routes-full")).toBeGreaterThan(0);
    expect(counted()).toBe(1_000);
    observer.look(true);
    await ask(5, "/later");
    observer.look(true);
    expect(observer.counts(port, "client")).toMatchObject({ "GET /later 200": 5 });
  } finally {
    server.close();
  }
});

it("tells how many requests of too many kinds were not counted", async () => {
  const addresses = 3_000;
  const server = createServer((_request, response) => response.end("ok")).listen(0, "0.0.0.0");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  await using observer = await RequestObserver.open({ settings: { maxRequestKinds: 64 } });
  try {
    await runProgram("python3", ["-c", traveller, String(port), String(addresses)], { env: { PATH: process.env["PATH"] ?? "" } });
    observer.look(true);
    const counted = observer.of(port, "client").reduce((sum, { count }) => sum + count, 0);
    const lost = observer.losses.get("undecoded") ?? 0;
    expect(lost).toBeGreaterThan(0);
    expect(counted + lost).toBe(addresses);
  } finally {
    server.close();
  }
});
