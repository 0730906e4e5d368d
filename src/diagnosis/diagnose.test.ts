import { describe, expect, it } from "vitest";
import { requestMeasures, type StepFact } from "../model/diagnosis.ts";
import { diagnose } from "./diagnose.ts";
import { facts, measure, steady, stepCounts, times } from "./diagnosis.fixture.ts";

const ask = { entry: "web", symptom: null };
const calls = [
  { caller: "web", callee: "orders" },
  { caller: "orders", callee: "db" },
];

const operation = (service: string, name: string, usualUs: number, nowUs: number) => ({
  service,
  operation: name,
  isCall: false,
  before: { self: times(usualUs), wholeUs: usualUs },
  after: { self: times(nowUs), wholeUs: nowUs },
});

const step = (
  service: string,
  child: string,
  before: [number, number],
  after: [number, number],
  values: Partial<StepFact> = {},
): StepFact => ({
  service,
  operation: `${service}.handle`,
  kind: "log",
  childService: service,
  child,
  severity: "info",
  before: stepCounts(...before),
  after: stepCounts(...after),
  ...values,
});

describe("diagnose()", () => {
  it("finds no issue when everything is as usual", () => {
    const quiet = ["web", "orders", "db"].map((service) => measure({ service, before: steady(100), after: steady(103) }));
    const { causes, nearest, services } = diagnose(facts({ measures: quiet, calls }), ask);
    expect(causes).toEqual([]);
    expect(services).toBe(3);
    expect(nearest?.score).toBeLessThan(0.3);
  });

  it("blames a slow callee, and rules out callers that suffer from it", () => {
    const slow = ["web", "orders", "db"].map((service) => measure({ service, before: steady(100), after: steady(1_100) }));
    const { causes, ruledOut } = diagnose(facts({ measures: slow, calls }), ask);
    expect(causes[0]).toMatchObject({ service: "db", kind: "slow", chain: ["web", "orders", "db"] });
    expect(causes[0]?.confidence).toBeGreaterThan(0.7);
    expect(ruledOut.map(({ service }) => service)).toEqual(["orders", "web"]);
    expect(ruledOut[0]?.reason).toContain("suffers from db");
  });

  it("blames a service that is slower than its callees explain", () => {
    const measures = [
      measure({ service: "web", before: steady(100), after: steady(1_100) }),
      measure({ service: "orders", before: steady(80), after: steady(1_080) }),
      measure({ service: "db", before: steady(20), after: steady(60) }),
    ];
    expect(diagnose(facts({ measures, calls }), ask).causes[0]?.service).toBe("orders");
  });

  it("blames a service without callees itself, even when another fault is worse", () => {
    const measures = [
      measure({ service: "search", name: requestMeasures.failed, unit: "ratio", kind: "errors", before: steady(0), after: steady(0.5) }),
      measure({ service: "images", before: steady(12), after: steady(144) }),
    ];
    expect(diagnose(facts({ measures, calls }), { entry: "search", symptom: null }).causes[0]?.service).toBe("search");
    expect(diagnose(facts({ measures, calls }), { entry: null, symptom: null }).causes[0]?.service).toBe("images");
  });

  it("reads availability as failures", () => {
    const measures = ["web", "orders"].map((service) =>
      measure({ service, name: "availability", unit: "%", kind: "errors", before: steady(100, 0), after: steady(95, 0) }),
    );
    expect(diagnose(facts({ measures, calls }), ask).causes[0]).toMatchObject({ service: "orders", kind: "failing" });
  });

  it("blames the service that uses up a resource", () => {
    const measures = [
      measure({ service: "web", before: steady(100), after: steady(180) }),
      ...["web", "orders", "db"].map((service) =>
        measure({
          service,
          name: "cpu",
          unit: "cores",
          kind: "resource",
          before: steady(0.2),
          after: steady(service === "orders" ? 3 : 0.2),
        }),
      ),
    ];
    expect(diagnose(facts({ measures, calls }), ask).causes[0]).toMatchObject({ service: "orders", kind: "resource" });
  });

  it("does not blame a bystander that uses more of a resource while others suffer", () => {
    const cores = (service: string, now: number) =>
      measure({ service, name: "cpu", unit: "cores", kind: "resource", before: steady(0.3), after: steady(now) });
    const measures = [
      measure({ service: "web", before: steady(100), after: steady(900) }),
      measure({ service: "orders", before: steady(80), after: steady(880) }),
      cores("web", 0.3),
      cores("backup", 2),
      cores("orders", 0.3),
    ];
    const { causes } = diagnose(facts({ measures, calls }), { entry: null, symptom: null });
    expect(causes[0]?.service).toBe("orders");
    const backup = causes.find(({ service }) => service === "backup");
    const alone = diagnose(facts({ measures: [cores("backup", 2), cores("web", 0.3), cores("orders", 0.3)] }), {
      entry: null,
      symptom: null,
    });
    expect(backup?.score ?? 0).toBeCloseTo((alone.causes[0]?.score ?? 0) / 2);
  });

  it("finds code that became slower", () => {
    const operations = [operation("web", "GET /", 50_000, 50_000), operation("orders", "total", 5_000, 90_000)];
    const { causes } = diagnose(facts({ operations }), ask);
    expect(causes[0]).toMatchObject({ service: "orders", kind: "slow-code", pointer: "total" });
  });

  it("blames the end whose links are all slow", () => {
    const link = (caller: string, callee: string, nowUs: number) => ({ caller, callee, before: times(3_000), after: times(nowUs) });
    const slowCaller = [link("web", "orders", 90_000), link("web", "stock", 90_000), link("stock", "db", 3_000)];
    expect(diagnose(facts({ links: slowCaller }), ask).causes[0]).toMatchObject({ service: "web", kind: "slow-link" });
    const slowCallee = [
      link("web", "orders", 3_000),
      link("web", "db", 90_000),
      link("stock", "db", 90_000),
      link("stock", "cache", 3_000),
    ];
    expect(diagnose(facts({ links: slowCallee }), ask).causes[0]).toMatchObject({ service: "db", kind: "slow-link" });
  });

  it("notices log records that are absent although the operation ran", () => {
    const steps = [step("orders", "order <num> stored", [500, 500], [40, 0]), step("web", "sent", [500, 500], [40, 40])];
    const { causes } = diagnose(facts({ steps }), ask);
    expect(causes[0]).toMatchObject({ service: "orders", kind: "changed-path", pointer: "order <num> stored" });
    expect(causes[0]?.evidence[0]?.statement).toContain("is absent per orders.handle although it ran 40 times");
  });

  it("blames the callee when two operations do something unusual", () => {
    const steps = [
      step("web", "orders.handle", [500, 500], [40, 40], { kind: "span", childService: "orders" }),
      step("web", "answer failed", [500, 0], [40, 40], { severity: "error" }),
      step("orders", "price missing", [500, 0], [40, 40], { severity: "error" }),
    ];
    const { causes, ruledOut } = diagnose(facts({ steps }), ask);
    expect(causes.map(({ service }) => service)).toEqual(["orders"]);
    expect(ruledOut).toMatchObject([{ service: "web" }]);
  });

  it("treats few traces as noise", () => {
    expect(diagnose(facts({ steps: [step("orders", "cache miss", [500, 100], [10, 5])] }), ask).causes).toEqual([]);
  });

  it("uses a change near the onset as additional evidence, never alone", () => {
    const changes = [{ timeMs: 3_600_000, service: "orders", kind: "deployment", message: "orders was deployed" }];
    const quiet = ["web", "orders"].map((service) => measure({ service, before: steady(100), after: steady(101) }));
    const alone = diagnose(facts({ measures: quiet, changes, calls }), ask);
    expect(alone.causes).toEqual([]);
    expect(alone.ruledOut).toMatchObject([{ service: "orders" }]);
    const slow = ["orders", "stock"].map((service) => measure({ service, before: steady(100), after: steady(900) }));
    const { causes } = diagnose(facts({ measures: slow, changes }), { entry: null, symptom: null });
    expect(causes[0]).toMatchObject({ service: "orders", change: changes[0] });
  });

  it("reports more traffic when that is the only difference", () => {
    const measures = [
      measure({ service: "web", name: requestMeasures.rate, unit: "/s", kind: "traffic", before: steady(20), after: steady(90) }),
      measure({ service: "web", before: steady(100), after: steady(110) }),
    ];
    expect(diagnose(facts({ measures, calls }), ask).causes[0]).toMatchObject({ service: "web", kind: "more-traffic" });
  });

  it("finds the service behind a load balancer's address", () => {
    const measures = ["lb.example.com", "orders"].map((service) => measure({ service, before: steady(100), after: steady(1_000) }));
    const all = [{ caller: "web", callee: "lb.example.com" }, ...calls];
    const { causes } = diagnose(facts({ measures, calls: all, externals: ["lb.example.com"] }), ask);
    expect(causes[0]?.service).toBe("orders");
  });
});
