import { createServer } from "node:net";
import { expect, it } from "vitest";
import { listen } from "./listen.ts";

it("listen() picks the next free port, and removes its listeners after each attempt", async () => {
  const holders = [createServer(), createServer()];
  const server = createServer();
  try {
    const [first, second] = holders as [(typeof holders)[0], (typeof holders)[0]];
    const taken = await listen(first, "127.0.0.1", 0, 0);
    const next = await listen(second, "127.0.0.1", taken, 20);
    expect(next).toBeGreaterThan(taken);
    expect(await listen(server, "127.0.0.1", taken, 20)).toBeGreaterThan(next);
    expect([server.listenerCount("listening"), server.listenerCount("error")]).toEqual([0, 0]);
    await expect(listen(createServer(), "127.0.0.1", taken, 0)).rejects.toThrow(/in use by another program/);
  } finally {
    for (const one of [...holders, server]) one.close();
  }
});
