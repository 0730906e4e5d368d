import { describe, expect, it } from "vitest";
import { isServiceId, nameInServiceId, originKinds, serviceIdOf } from "./service-identity.ts";

describe("serviceIdOf()", () => {
  it.each([
    [serviceIdOf("unit", "postgresql", null), "unit:postgresql"],
    [serviceIdOf("program", "worker", "3fa2c91b7d04"), "program:worker#3fa2c91b7d04"],
    [serviceIdOf("workload", "shop/deployment/api", null, "staging"), "workload:shop/deployment/api@staging"],
  ])("is stored, so it must remain %s", (id, stored) => {
    expect(id).toBe(stored);
  });
});

describe("isServiceId()", () => {
  it("accepts every kind of origin, and rejects plain names", () => {
    for (const kind of originKinds) expect(isServiceId(serviceIdOf(kind, "x", null))).toBe(true);
    for (const name of ["api", "program", "shop.example.com:8080", "", "sunit:x"]) expect(isServiceId(name)).toBe(false);
  });
});

describe("nameInServiceId()", () => {
  it.each([
    ["program:worker#3fa2c91b7d04", "worker"],
    ["unit:postgresql", "postgresql"],
    ["workload:shop/deployment/api@staging", "api@staging"],
    ["program:app#00ff@prod", "app@prod"],
    ["api", "api"],
  ])("%s is %s", (id, name) => {
    expect(nameInServiceId(id)).toBe(name);
  });
});
