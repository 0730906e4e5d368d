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
  it("is the name where only one service has it", () => {
    expect(labels(service("unit:api", "api", ["api.service"]), service("unit:web", "web"))).toEqual(["api", "web"]);
  });

  it("tells namesakes apart by the shortest qualifier that only one of them has", () => {
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

  it("uses the id where nothing else differs", () => {
    expect(labels(service("program:x#0123456789ab", "x", ["d"]), service("program:x#ba9876543210", "x", ["d"]))).toEqual([
      "x (012345)",
      "x (ba9876)",
    ]);
    expect(labels(service("unit:x", "x"), service("container:x", "x"))).toEqual(["x (unit x)", "x (container x)"]);
  });

  it("leaves the name to the service that is there, not to a namesake that is gone", () => {
    expect(labels(service("program:api#01", "api", ["old"], false), service("program:api#02", "api", ["new"]))).toEqual([
      "api (old)",
      "api",
    ]);
  });

  it("leaves the name to a service that is known by nothing else", () => {
    expect(labels(service("api", "api"), service("program:api#02", "api", ["shop"]))).toEqual(["api", "api (shop)"]);
  });

  it("never gives two services one label, whatever they are called", () => {
    const services = [
      service("program:a#01", "a", ["b"]),
      service("program:a#02", "a", ["c"]),
      service("unit:odd", "a (b)"),
      service("program:a#03", "a", ["b"]),
    ];
    expect(new Set(labels(...services)).size).toBe(4);
  });

  it("does not depend on the order in which services are listed", () => {
    const services = [service("program:a#01", "a", ["x"]), service("program:a#02", "a", ["y"]), service("program:a#03", "a", ["x"])];
    const forward = labelServices(services);
    const backward = labelServices([...services].reverse());
    for (const { id } of services) expect(backward.get(id)).toBe(forward.get(id));
  });
});
