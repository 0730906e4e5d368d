import { createHmac } from "node:crypto";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { silentLogger } from "../../base/log.ts";
import { Webhook } from "./webhook.ts";

interface Received {
  path: string;
  body: string;
  headers: Record<string, unknown>;
}

let server: Server;
let received: Received[];
let statuses: number[];
let url: string;
let stop: AbortController;
let running: Promise<void>;

beforeEach(async () => {
  [received, statuses] = [[], []];
  server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      received.push({ path: request.url ?? "", body: Buffer.concat(chunks).toString(), headers: request.headers });
      response.writeHead(statuses.shift() ?? 200, { location: "/elsewhere" }).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
  stop = new AbortController();
});
afterEach(async () => {
  stop.abort();
  await running;
  server.closeAllConnections();
  server.close();
});

function started(secret: string | null): Webhook {
  const webhook = new Webhook({ target: () => ({ url, secret }), log: silentLogger, retryMs: 1 });
  running = webhook.run(stop.signal);
  return webhook;
}

it("posts in order, signed with the secret", async () => {
  const webhook = started("a long secret");
  webhook.send("incident-opened", { incident: { id: "inc-1" } });
  webhook.send("incident-closed", { incident: { id: "inc-1" } });
  await vi.waitFor(() => expect(received).toHaveLength(2));
  const [first, second] = received;
  expect(JSON.parse(first?.body ?? "")).toEqual({ event: "incident-opened", incident: { id: "inc-1" } });
  expect(first?.headers["x-coral-signature"]).toBe(
    `sha256=${createHmac("sha256", "a long secret")
      .update(first?.body ?? "")
      .digest("hex")}`,
  );
  expect(second?.headers["x-coral-event"]).toBe("incident-closed");
});

it("does not sign without a secret", async () => {
  started(null).send("incident-opened", {});
  await vi.waitFor(() => expect(received).toHaveLength(1));
  expect(received[0]?.headers).not.toHaveProperty("x-coral-signature");
});

it("retries after a failure, and gives up after six attempts", async () => {
  statuses = [500, 503, 200, 500, 500, 500, 500, 500, 500, 200];
  const webhook = started(null);
  for (const number of [1, 2, 3]) webhook.send("incident-opened", { number });
  await vi.waitFor(() => expect(received).toHaveLength(10));
  expect(received.map(({ body }) => (JSON.parse(body) as { number: number }).number)).toEqual([1, 1, 1, 2, 2, 2, 2, 2, 2, 3]);
});

it("follows no redirect and does not retry a rejected delivery", async () => {
  statuses = [302, 400, 200];
  const webhook = started(null);
  for (const number of [1, 2, 3]) webhook.send("incident-opened", { number });
  await vi.waitFor(() => expect(received).toHaveLength(3));
  expect(received.map(({ path }) => path)).toEqual(["/hook", "/hook", "/hook"]);
});

it("keeps the newest hundred while the receiver is slow, and never blocks", () => {
  const webhook = new Webhook({ target: () => ({ url, secret: null }), log: silentLogger, retryMs: 1 });
  for (let number = 0; number < 1_000; number++) webhook.send("incident-opened", { number });
  running = webhook.run(stop.signal);
  return vi.waitFor(() => {
    expect(received.map(({ body }) => (JSON.parse(body) as { number: number }).number)).toEqual(
      Array.from({ length: 100 }, (_, index) => 900 + index),
    );
  });
});
