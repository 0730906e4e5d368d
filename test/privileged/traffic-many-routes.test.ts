/**
 * More kinds of requests than the kernel's tables hold: each request is counted or reported as lost, and later ones soon have names again. The tables
 * and losses are those of the whole host, so a second observer with large tables measures the requests of other programs.
 */

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { beforeEach, expect, it } from "vitest";
import { probesSkipReason } from "../support/bpf-skip-reason.ts";
import { RequestObserver } from "../support/request-observer.ts";
import { runProgram } from "../support/run-program.ts";
import { waitFor } from "../support/wait-for.ts";

/** Sends requests on one connection, with a new route for each request if the path ends with a dash. */
const client = `
import http.client, sys
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
for turn in range(int(sys.argv[2])):
    digits = "".join(chr(ord("a") + int(digit)) for digit in str(turn))
    connection.request("GET", sys.argv[3] + (digits if sys.argv[3].endswith("-") else ""))
    connection.getresponse().read()
`;

/** Sends the same request to each of many addresses. */
const manyAddresses = `
import http.client, sys
for turn in range(int(sys.argv[2])):
    connection = http.client.HTTPConnection("127.1.%d.%d" % (turn >> 8, turn & 255), int(sys.argv[1]))
    connection.request("GET", "/")
    connection.getresponse().read()
    connection.close()
`;

/** Requests and losses of other programs since both observers were opened. */
function foreignRequests(control: RequestObserver, port: number): number {
  control.look(true);
  const requests = control.requests.filter(({ serverPort }) => serverPort !== port).reduce((sum, { count }) => sum + count, 0);
  return requests + (control.losses.get("undecoded") ?? 0);
}

beforeEach((context) => {
  const reason = probesSkipReason("python3");
  context.skip(reason !== undefined, reason);
});

it("counts every request of a service with too many routes, and names those that come after", async () => {
  const server = createServer((_request, response) => response.end("ok")).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  await using control = await RequestObserver.open({ settings: { maxRequestKinds: 8_192 } });
  await using observer = await RequestObserver.open({ settings: { maxRequestKinds: 64 } });
  const counted = () => observer.of(port, "client").reduce((sum, { count }) => sum + count, 0);
  const ask = (times: number, target: string) =>
    runProgram("python3", ["-c", client, String(port), String(times), target], { env: { PATH: process.env["PATH"] ?? "" } });
  try {
    await ask(1_000, "/word-");
    observer.look(true);
    const others = observer.requests.filter(({ route }) => route === "other").reduce((sum, { count }) => sum + count, 0);
    expect(others).toBeGreaterThan(0);
    expect(observer.losses.get("routes-full")).toBe(others);
    const lost = foreignRequests(control, port) === 0 ? 0 : (observer.losses.get("undecoded") ?? 0);
    expect(counted()).toBeLessThanOrEqual(1_000);
    expect(counted()).toBeGreaterThanOrEqual(1_000 - lost);
    observer.look(true);
    // Once, unless other programs filled the tables again.
    await waitFor("the name of later requests", async () => {
      await ask(5, "/later");
      observer.look(true);
      return (observer.counts(port, "client")["GET /later 200"] ?? 0) >= 5;
    });
  } finally {
    server.close();
  }
});

it("reports the number of requests that did not fit into the table of kinds", async () => {
  const addresses = 3_000;
  const server = createServer((_request, response) => response.end("ok")).listen(0, "0.0.0.0");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  await using control = await RequestObserver.open({ settings: { maxRequestKinds: 8_192 } });
  await using observer = await RequestObserver.open({ settings: { maxRequestKinds: 64 } });
  try {
    await runProgram("python3", ["-c", manyAddresses, String(port), String(addresses)], { env: { PATH: process.env["PATH"] ?? "" } });
    observer.look(true);
    const counted = observer.of(port, "client").reduce((sum, { count }) => sum + count, 0);
    const lost = observer.losses.get("undecoded") ?? 0;
    expect(lost).toBeGreaterThan(0);
    expect(counted).toBeLessThanOrEqual(addresses);
    expect(counted + lost).toBeGreaterThanOrEqual(addresses);
    expect(counted + lost).toBeLessThanOrEqual(addresses + foreignRequests(control, port));
  } finally {
    server.close();
  }
});
