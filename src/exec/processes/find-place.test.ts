import { describe, expect, it } from "vitest";
import { CoralError } from "../../base/errors.ts";
import type { ContainerDirectory, ContainerInfo, ProcessView } from "../../host/index.ts";
import { findPlace, neighbourTargets, ruleTargets, targetText } from "./find-place.ts";
import { findGroups, findUser } from "./find-user.ts";

const signal = new AbortController().signal;
const view = (pid: number, place: string, startTicks = pid): ProcessView => ({
  pid,
  startTicks: String(startTicks),
  rootPrefix: place === "host" ? "" : `/nowhere/${place}`,
  uid: 1_000,
  gid: 1_000,
  namespaces: place === "host" ? [] : ["mnt", "pid"],
  place,
});
const processes = new Map(
  [view(10, "host"), view(20, "a", 900), view(21, "a", 300), view(22, "a", 500), view(30, "b")].map((one) => [one.pid, one]),
);
const container: ContainerInfo = {
  id: "3f2a".padEnd(64, "0"),
  name: "web",
  pod: null,
  service: "",
  image: "x",
  runtime: "containerd",
  isRunning: true,
  isOwn: false,
};
const containers = (pid: number | null, change: Partial<ContainerInfo> = {}): ContainerDirectory => ({
  list: async () => [container],
  find: async (name) => {
    if (name !== "web" && name !== container.id) throw new CoralError({ code: "not-found", message: "none" });
    return { ...container, ...change };
  },
  pidOf: async () => pid,
  of: async (inside) => (inside === pid ? container : null),
  exec: async () => {
    throw new Error("not here");
  },
});
const find = (
  wanted: Partial<Parameters<typeof findPlace>[0]>,
  pids: number[] = [],
  directory: ContainerDirectory | undefined = containers(20),
) =>
  findPlace(
    { kind: "service", service: "api", container: "", pid: 0, ...wanted },
    { pidsOf: async () => pids, containers: directory, view: (pid) => processes.get(pid) ?? null },
    signal,
  );

describe("findPlace()", () => {
  it("picks the oldest process, not the lowest pid", async () => {
    expect(await find({}, [20, 21, 22])).toMatchObject({ where: "service api, pid 21", target: { pid: 21 } });
  });

  it("finds the process's container if the runtime responds", async () => {
    expect(await find({}, [20])).toMatchObject({ target: { pid: 20 }, container: { name: "web" } });
    expect(await find({ pid: 30 }, [20, 30])).toMatchObject({ target: { pid: 30 }, container: undefined });
    expect(await find({}, [10], containers(10))).toMatchObject({ target: undefined, container: undefined });
    const of = (code: "unavailable" | "internal") => async () => {
      throw new CoralError({ code, message: "no" });
    };
    expect(await find({}, [20], { ...containers(20), of: of("unavailable") })).toMatchObject({ target: { pid: 20 }, container: undefined });
    await expect(find({}, [20], { ...containers(20), of: of("internal") })).rejects.toThrow("no");
  });

  it("matches host rules for a pid on the host, and container rules if it is in one", async () => {
    for (const [pid, expected] of [
      [10, ["host"]],
      [20, ["host pid 20", `container ${container.id}`, "container web"]],
      [30, ["host pid 30"]],
    ] as const) {
      const wanted = { kind: "host" as const, service: "", container: "", pid };
      expect(ruleTargets(wanted, await find(wanted))).toEqual(expected);
    }
  });

  it("reports an unknown container name", async () => {
    const silent = { ...containers(20), of: () => Promise.reject(new CoralError({ code: "timeout", message: "no" })) };
    const unnamed = { ...containers(20), of: async () => ({ ...container, name: "" }) };
    for (const wanted of [{}, { kind: "host" as const, pid: 20 }]) {
      expect(await find(wanted, [20])).toMatchObject({ isUnnamed: false });
      expect(await find(wanted, [20], silent)).toMatchObject({ isUnnamed: true });
      expect(await find(wanted, [20], unnamed)).toMatchObject({ isUnnamed: true });
    }
    expect(await find({ kind: "host", pid: 10 }, [], silent)).toMatchObject({ isUnnamed: false });
    expect(await find({ kind: "container", container: "web" }, [], containers(20, { name: "" }))).toMatchObject({ isUnnamed: true });
    expect(await find({ kind: "container", container: "web" }, [], containers(null, { name: "" }))).toMatchObject({ isUnnamed: true });
  });

  it("lists services in the same namespaces", async () => {
    const services: Readonly<Record<number, string>> = { 10: "sshd", 21: "api", 22: "worker", 30: "other" };
    const servicesOf = (isMeant: (pid: number) => boolean): string[] =>
      Object.entries(services).flatMap(([pid, name]) => (isMeant(Number(pid)) ? [name] : []));
    const options = { pidsOf: async () => [], containers: undefined, view: (pid: number) => processes.get(pid) ?? null, servicesOf };
    expect(neighbourTargets(await find({ kind: "host", pid: 20 }), options)).toEqual(["service api", "service worker"]);
    expect(neighbourTargets(await find({ kind: "host", pid: 10 }), options)).toEqual([]);
    expect(
      neighbourTargets(await find({ kind: "host", pid: 20 }), { pidsOf: options.pidsOf, containers: undefined, view: options.view }),
    ).toEqual([]);
  });

  it("matches rules by every name of a container, regardless of how it was requested", async () => {
    const wanted = { kind: "container" as const, service: "", container: container.id, pid: 0 };
    const place = await find(wanted, [], containers(20, { pod: { name: "shop-0", namespace: "x", uid: "" }, service: "front" }));
    expect(ruleTargets(wanted, place)).toEqual([`container ${container.id}`, "container web", "container front", "container shop-0/web"]);
  });

  it("rejects an ambiguous service with processes in several containers", async () => {
    await expect(find({}, [20, 30])).rejects.toMatchObject({ code: "usage", message: expect.stringContaining("it runs in 2 places") });
    expect(await find({ pid: 30 }, [20, 30])).toMatchObject({ target: { pid: 30 } });
    expect(await find({ container: "web" }, [20, 30])).toMatchObject({ target: { pid: 20 } });
    await expect(find({ pid: 22 }, [20, 30])).rejects.toMatchObject({ code: "not-found" });
    await expect(find({ container: "web" }, [30])).rejects.toThrow("no process of it runs in container");
  });

  it("enters no namespace for a service on the host", async () => {
    expect(await find({}, [10])).toMatchObject({ where: "host (service api, pid 10)", target: undefined });
  });

  it("fails if no process of the service is visible", async () => {
    await expect(find({}, [])).rejects.toMatchObject({ code: "not-found" });
    await expect(find({}, [99])).rejects.toMatchObject({ code: "not-found" });
    expect(await find({ service: "web" }, [])).toMatchObject({ where: "container 3f2a00000000 (web), pid 20" });
  });

  it("delegates a container with invisible processes to its runtime", async () => {
    expect(await find({ kind: "container", container: "web" }, [], containers(null))).toMatchObject({
      isRuntimeOnly: true,
      target: undefined,
    });
    await expect(find({ kind: "container", container: "web" }, [], containers(20, { isRunning: false }))).rejects.toThrow(
      "it is not running",
    );
    await expect(find({ kind: "container", container: "web", pid: 30 }, [])).rejects.toThrow("process 30 is not in it");
    await expect(
      findPlace({ kind: "container", service: "", container: "web", pid: 0 }, { pidsOf: async () => [], containers: undefined }, signal),
    ).rejects.toMatchObject({ code: "unsupported" });
  });
});

describe("targetText()", () => {
  it("is the text that rules and audits use", () => {
    const none = { service: "", container: "", pid: 0 };
    expect(targetText({ ...none, kind: "host" })).toBe("host");
    expect(targetText({ ...none, kind: "service", service: "api", container: "web", pid: 7 })).toBe("service api container web pid 7");
    expect(targetText({ ...none, kind: "container", container: "web" })).toBe("container web");
  });
});

describe("findUser()", () => {
  const target = view(20, "a");
  it("is nobody for a root agent, regardless of the target's user", () => {
    expect(findUser({ runAs: undefined, target, ownUid: 0 })).toMatchObject({ name: "nobody", ids: { uid: 65_534 } });
    expect(findUser({ runAs: undefined, target: undefined, ownUid: 0, passwordFile: "/nonexistent" })).toMatchObject({
      ids: { uid: 65_534, gid: 65_534 },
    });
    expect(findUser({ runAs: "target", target: undefined, ownUid: 0 })).toMatchObject({ name: "nobody" });
  });

  it("is the rule's run_as", () => {
    expect(findUser({ runAs: "root", target, ownUid: 0 })).toMatchObject({ ids: { uid: 0, gid: 0 } });
    expect(findUser({ runAs: "12345", target, ownUid: 0 })).toMatchObject({ ids: { uid: 12_345, gid: 12_345 } });
    expect(findUser({ runAs: "target", target, ownUid: 0 })).toMatchObject({ ids: { uid: 1_000, gid: 1_000 } });
    expect(() => findUser({ runAs: "no-such-user", target, ownUid: 0 })).toThrow("this host has no such user");
  });

  it("is always the agent's own user without root", () => {
    expect(findUser({ runAs: undefined, target, ownUid: 4_321 })).toMatchObject({ ids: undefined });
    expect(() => findUser({ runAs: "root", target, ownUid: 4_321 })).toThrow("the agent is not root");
  });
});

describe("findGroups()", () => {
  it("skips groups that the host does not have", () => {
    expect(findGroups(["root", "no-such-group"])).toEqual([0]);
    expect(findGroups(["root"], "/nonexistent")).toEqual([]);
  });
});
