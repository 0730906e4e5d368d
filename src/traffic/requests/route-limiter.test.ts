import { describe, expect, it } from "vitest";
import { otherRoute, RouteLimiter } from "./route-limiter.ts";

const words = Array.from({ length: 26 * 26 }, (_, index) => String.fromCharCode(97 + (index % 26), 97 + Math.floor(index / 26)));

describe("RouteLimiter", () => {
  it("keeps a small number of routes unchanged", () => {
    const limiter = new RouteLimiter();
    for (const route of ["/", "/users/{id}", "/users", "shop.Cart/Add", "*", "SELECT ? FROM a/b"])
      expect(limiter.limit("s", route)).toBe(route);
    expect(limiter.takeOverflow()).toBe(0);
  });

  it("merges a position with too many values, and everything after it", () => {
    const limiter = new RouteLimiter({ maxSiblings: 10 });
    const last = words.slice(0, 40).map((word) => limiter.limit("s", `/users/${word}/orders`));
    expect(last[0]).toBe("/users/aa/orders");
    expect(last.at(-1)).toBe("/users/{id}/orders");
    expect(limiter.limit("s", "/users/aa/orders")).toBe("/users/{id}/orders");
    expect(limiter.limit("s", "/users/zz/bills/…")).toBe("/users/{id}/bills/…");
    expect(limiter.limit("s", "/teams/aa/orders")).toBe("/teams/aa/orders");
    expect(limiter.takeOverflow()).toBe(0);
  });

  it("allows four times as many values in the first segment", () => {
    const limiter = new RouteLimiter({ maxSiblings: 10 });
    expect(words.slice(0, 40).every((word) => limiter.limit("s", `/${word}`) === `/${word}`)).toBe(true);
    expect(limiter.limit("s", "/one-more")).toBe("/{id}");
  });

  it("merges the widest position when the table is full, then uses other and counts the overflow", () => {
    const limiter = new RouteLimiter({ maxSiblings: 100, maxRoutesPerService: 20 });
    for (const word of words.slice(0, 12)) limiter.limit("s", `/wide/${word}`);
    for (const word of words.slice(0, 7)) limiter.limit("s", `/narrow/${word}`);
    limiter.limit("s", "/");
    expect(limiter.limit("s", "/wide/new")).toBe("/wide/{id}");
    for (const word of words.slice(20, 31)) expect(limiter.limit("s", `${word} x`)).toBe(`${word} x`);
    expect(limiter.limit("s", "one more", 5)).toBe(otherRoute);
    expect(limiter.limit("s", "/wide/again")).toBe("/wide/{id}");
    expect(limiter.takeOverflow()).toBe(5);
    expect(limiter.takeOverflow()).toBe(0);
  });

  it("does not count requests again that lost their route earlier", () => {
    const limiter = new RouteLimiter({ maxRoutesPerService: 1 });
    limiter.limit("s", "a");
    expect(limiter.limit("s", otherRoute, 7)).toBe(otherRoute);
    expect(limiter.takeOverflow()).toBe(0);
  });

  it("bounds the routes of each service separately", () => {
    const limiter = new RouteLimiter({ maxRoutesPerService: 2 });
    expect(["a", "b", "c"].map((route) => limiter.limit("1", route))).toEqual(["a", "b", otherRoute]);
    expect(["c", "b", "a"].map((route) => limiter.limit("2", route))).toEqual(["c", "b", otherRoute]);
  });

  it("evicts unused routes and services", () => {
    const limiter = new RouteLimiter({ maxRoutesPerService: 1, maxIdleWindows: 3 });
    limiter.limit("1", "a");
    limiter.limit("2", "a");
    for (let window = 0; window < 4; window++) {
      limiter.age();
      limiter.limit("2", "b");
    }
    expect(limiter.serviceCount).toBe(1);
    expect(limiter.limit("2", "b")).toBe("b");
    expect(limiter.limit("1", "b")).toBe("b");
  });

  it("holds a bounded number of services", () => {
    const limiter = new RouteLimiter({ maxServices: 3 });
    for (let service = 0; service < 50; service++) limiter.limit(String(service), "/");
    expect(limiter.serviceCount).toBe(3);
  });

  it("returns at most the allowed number of routes for any input", () => {
    const limiter = new RouteLimiter({ maxRoutesPerService: 50, maxSiblings: 12 });
    let seed = 7;
    const next = (below: number): number => {
      seed = (seed * 1103515245 + 12345) & 0x7fffffff;
      return (seed >> 8) % below;
    };
    let limited = new Set<string>();
    for (let round = 0; round < 20_000; round++) {
      if (round === 10_000) limited = new Set();
      limited.add(limiter.limit("s", `/${Array.from({ length: 1 + next(5) }, () => words[next(60)]).join("/")}`));
    }
    expect(limited.size).toBeLessThanOrEqual(51);
  });
});
