import { describe, expect, it } from "vitest";
import { labelServices, type NamedService } from "./label-services.ts";

const service = (id: string, name: string, qualifiers: string[] = [], isCurrent = true): NamedService => ({
  id,
  name,
  qualifiers,
  isCurrent,
});
const labels = (...services: NamedService[]): string[] => {
  const given = labelServices(services);
  return services.map(({ id }) => given.get(id) ?? "none");
};

describe("labelServices()", () => {
  it("uses the name if only one service has it", () => {
    expect(labels(service("unit:api", "api", ["api.service"]), service("unit:web", "web"))).toEqual(["api", "web"]);
  });

  it("adds the shortest qualifier that distinguishes a service from others of its name", () => {
    expect(
      labels(
        service("program:worker#01", "worker", ["billing", "/srv/billing"]),
        service("program:worker#02", "worker", ["images", "/srv/images"]),
      ),
    ).toEqual(["worker (billing)", "worker (images)"]);
    expect(
      labels(service("program:worker#01", "worker", ["app", "/a/app"]), service("program:worker#02", "worker", ["app", "/b/app"])),
    ).toEqual(["worker (/a/app)", "worker (/b/app)"]);
  });

  it("joins a port with a colon", () => {
    expect(labels(service("program:postgres#01", "postgres", [":18432"]), service("program:postgres#02", "postgres", [":21055"]))).toEqual([
      "postgres:18432",
      "postgres:21055",
    ]);
  });

  it("uses the id if no qualifier differs", () => {
    expect(labels(service("program:x#0123456789ab", "x", ["d"]), service("program:x#ba9876543210", "x", ["d"]))).toEqual([
      "x (012345)",
      "x (ba9876)",
    ]);
    expect(labels(service("unit:x", "x"), service("container:x", "x"))).toEqual(["x (unit x)", "x (container x)"]);
  });

  it("gives the bare name to the current service, not to one that is gone", () => {
    expect(labels(service("program:api#01", "api", ["old"], false), service("program:api#02", "api", ["new"]))).toEqual([
      "api (old)",
      "api",
    ]);
  });

  it("gives the bare name to a service that has no other identity", () => {
    expect(labels(service("api", "api"), service("program:api#02", "api", ["shop"]))).toEqual(["api", "api (shop)"]);
  });

  it("never gives two services the same label", () => {
    const services = [
      service("program:a#01", "a", ["b"]),
      service("program:a#02", "a", ["c"]),
      service("unit:odd", "a (b)"),
      service("program:a#03", "a", ["b"]),
    ];
    expect(new Set(labels(...services)).size).toBe(4);
  });

  it("does not depend on the order of services", () => {
    const services = [service("program:a#01", "a", ["x"]), service("program:a#02", "a", ["y"]), service("program:a#03", "a", ["x"])];
    const forward = labelServices(services);
    const backward = labelServices([...services].reverse());
    for (const { id } of services) expect(backward.get(id)).toBe(forward.get(id));
  });
});
