import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { redRowOf } from "../queries/red-rows.fixture.ts";
import { type InstanceValues, listens, type WatchedHosts, watchHosts } from "./watched-hosts.fixture.ts";

let watched: WatchedHosts;
beforeEach(async () => {
  watched = await watchHosts();
});
afterEach(() => watched[Symbol.asyncDispose]());

const worker = (id: string, name: string, qualifiers: string[], more: InstanceValues = {}): InstanceValues =>
  listens(id, 8_080, ["10.0.0.1"], { name, qualifiers: JSON.stringify(qualifiers), ...more });

async function scan(...instances: InstanceValues[]): Promise<void> {
  watched.clock.pass(30_000);
  await watched.scan("agent-1", instances);
  await watched.cycle();
}

const services = async (): Promise<string[]> => {
  const rows = await watched.hosts.store.query("SELECT service, label, former_names FROM net.services ORDER BY service");
  return rows.map((row) => `${String(row["service"])} = ${String(row["label"])}; was ${JSON.stringify(row["former_names"])}`);
};
const meant = async (text: string): Promise<string | undefined> => {
  const [row] = await watched.hosts.store.query("SELECT label FROM net.service_names WHERE text = ?", [text]);
  return row === undefined ? undefined : String(row["label"]);
};

describe("names of services", () => {
  it("change without a new service, and the former name still resolves to it", async () => {
    await scan(worker("program:app#01", "app", ["shop"]));
    await scan(worker("program:app#01", "checkout", ["shop"], { named_by: "manual", confidence: 1 }));
    expect(await services()).toEqual(['program:app#01 = checkout; was ["app"]']);
    expect([await meant("program:app#01"), await meant("checkout"), await meant("app")]).toEqual(["checkout", "checkout", "checkout"]);
    const registry = await watched.hosts.store.query("SELECT service, first_seen < last_seen AS kept FROM net.service_registry");
    expect(registry).toMatchObject([{ service: "program:app#01" }]);
  });

  it("shared by two services resolve to neither, and each gets its own label", async () => {
    await scan(
      worker("program:worker#01", "worker", ["billing"]),
      worker("program:worker#02", "worker", ["images"], { port: 8_081, pid: 2 }),
    );
    expect(await services()).toEqual(["program:worker#01 = worker (billing); was []", "program:worker#02 = worker (images); was []"]);
    expect(await meant("worker")).toBeUndefined();
    expect(await meant("program:worker#02")).toBe("worker (images)");
  });

  it("shared by two services resolve to the one that sends telemetry, until both do", async () => {
    const both = [
      worker("program:worker#01", "worker", ["billing"]),
      worker("program:worker#02", "worker", ["images"], { port: 8_081, pid: 2 }),
    ];
    const exports = async (service: string, kind: { protocol: string; method: string; route: string }): Promise<void> => {
      const request = { atMs: watched.clock.wall, service, role: "client", status: "200", durationNs: 1e6, route: kind.route };
      await watched.hosts.add("agent-1", { red: [redRowOf([request], { ...kind, peer: "coral" })] });
    };
    await exports("program:worker#01", { protocol: "http", method: "POST", route: "/api/orders" });
    await scan(...both);
    expect(await meant("worker")).toBeUndefined();
    await exports("program:worker#01", { protocol: "http", method: "POST", route: "/v1/traces" });
    await scan(...both);
    await scan(...both);
    expect(await meant("worker")).toBe("worker (billing)");
    // It sends nothing for an hour.
    watched.clock.pass(3_600_000);
    await scan(...both);
    expect(await meant("worker")).toBe("worker (billing)");
    const grpc = { protocol: "grpc", method: "POST", route: "opentelemetry.proto.collector.trace.v1.TraceService/Export" };
    await exports("program:worker#01", grpc);
    await exports("program:worker#02", grpc);
    await scan(...both);
    await scan(...both);
    expect(await meant("worker")).toBeUndefined();
  });

  it("go to the current service once the other has been gone for a minute", async () => {
    const [one, two] = [
      worker("program:worker#01", "worker", ["billing"]),
      worker("program:worker#02", "worker", ["images"], { port: 8_081, pid: 2 }),
    ];
    await scan(one, two);
    for (let round = 0; round < 5; round++) await scan(two);
    expect(await services()).toEqual(["program:worker#01 = worker (billing); was []", "program:worker#02 = worker; was []"]);
    await scan(one, two);
    expect((await services())[1]).toBe("program:worker#02 = worker (images); was []");
  });

  it("are the labels of that time in events, while details keep the id", async () => {
    await scan(worker("program:a#01", "a", []));
    await scan(worker("program:a#01", "a", []));
    await scan(worker("program:a#01", "a", []), worker("program:b#02", "b", [], { port: 9_000, pid: 9 }));
    const found = (await watched.events()).filter(({ message }) => message.includes("port 9000"));
    expect(found).toMatchObject([{ message: expect.stringContaining("Service b was found"), details: { service: "program:b#02" } }]);
  });

  it("of agents that send none are the service id", async () => {
    await scan(listens("api", 8_080, ["10.0.0.1"]));
    expect(await services()).toEqual(["api = api; was []"]);
  });

  it("collect aliases, bounded", async () => {
    for (let round = 0; round < 3; round++)
      await scan(
        worker("program:a#01", "a", [], { aliases: JSON.stringify(Array.from({ length: 20 }, (_, at) => `host-${round}-${at}`)) }),
      );
    const [row] = await watched.hosts.store.query("SELECT len(aliases) AS aliases FROM net.services");
    expect(Number(row?.["aliases"])).toBe(32);
    expect(await meant("host-0-1")).toBeUndefined();
  });

  it("ignore qualifiers and aliases that are not JSON", async () => {
    await scan(worker("program:a#01", "a", [], { qualifiers: "[", aliases: "{" }));
    expect(await services()).toEqual(["program:a#01 = a; was []"]);
  });
});
