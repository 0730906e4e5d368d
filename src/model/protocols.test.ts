import { expect, it } from "vitest";
import {
  protocolNumber,
  protocolOfNumber,
  protocolsCountedInKernel,
  protocolTitle,
  protocolTitleOfPort,
  renderProtocolTable,
  trafficProtocols,
} from "./protocols.ts";

it("numbers every protocol from 1 on, and both ways", () => {
  expect(trafficProtocols.map((name) => protocolOfNumber(protocolNumber(name)))).toEqual(trafficProtocols);
  expect(protocolNumber("http")).toBe(1);
  expect([0, trafficProtocols.length + 1, 255].map(protocolOfNumber)).toEqual([undefined, undefined, undefined]);
});

it("has names that are unique, fit into a C identifier, and fit into the kernel's 32-bit sets", () => {
  expect(new Set(trafficProtocols).size).toBe(trafficProtocols.length);
  expect(trafficProtocols.filter((name) => !/^[a-z][a-z0-9]*$/.test(name))).toEqual([]);
  expect(trafficProtocols.length).toBeLessThanOrEqual(31);
});

it("finds titles by name and by port", () => {
  expect(protocolTitle("postgres")).toBe("PostgreSQL");
  expect(protocolTitle("db2")).toBeUndefined();
  expect(protocolTitleOfPort(6379)).toBe("Redis");
  expect(protocolTitleOfPort(8080)).toBeUndefined();
});

it("knows which protocols remain on the lowest steps of the budget ladder", () => {
  expect([...protocolsCountedInKernel]).toEqual(["http", "postgres", "redis", "tls"]);
});

it("renders one row of documentation per protocol", () => {
  const lines = renderProtocolTable().split("\n");
  expect(lines).toHaveLength(2 + trafficProtocols.length);
  expect(lines[3]).toBe(
    "| HTTP/2 | `http2` | method, path template; pushed responses are not counted | as HTTP; a reset response is an error, too |",
  );
});
