import { describe, expect, it } from "vitest";
import { formatBytes, formatDurationMs, parseDurationMs, parseSizeBytes } from "./units.ts";

describe("parseDurationMs()", () => {
  it.each([
    ["250ms", 250],
    ["30s", 30_000],
    ["1.5s", 1_500],
    ["5m", 300_000],
    ["1h30m", 5_400_000],
    ["7d", 604_800_000],
    [" 2h ", 7_200_000],
  ])("reads %s", (text, expected) => expect(parseDurationMs(text)).toBe(expected));

  it.each(["", "5", "s", "5 m", "5x", "-5s", "1h 30m", "5mins", "1e3s"])("rejects %j and shows the expected form", (text) => {
    expect(() => parseDurationMs(text)).toThrow(/write a number with a unit/);
  });
});

describe("parseSizeBytes()", () => {
  it.each([
    ["512B", 512],
    ["64KiB", 65_536],
    ["256MiB", 268_435_456],
    ["1.5GiB", 1_610_612_736],
  ])("reads %s", (text, expected) => expect(parseSizeBytes(text)).toBe(expected));

  it.each(["", "256", "256MB", "MiB", "-1MiB", "1 GiB"])("rejects %j", (text) => {
    expect(() => parseSizeBytes(text)).toThrow(/Cannot read size/);
  });
});

describe("formatDurationMs()", () => {
  it.each([
    [0, "0ms"],
    [840, "840ms"],
    [12_000, "12s"],
    [312_000, "5m 12s"],
    [273_600_000, "3d 4h"],
    [3_600_000, "1h"],
  ])("writes %d as %s", (value, expected) => expect(formatDurationMs(value)).toBe(expected));
});

describe("formatBytes()", () => {
  it.each([
    [0, "0 B"],
    [1023, "1023 B"],
    [1536, "1.50 KiB"],
    [1_299_227_607, "1.21 GiB"],
    [500 * 1024 ** 2, "500 MiB"],
  ])("writes %d as %s", (value, expected) => expect(formatBytes(value)).toBe(expected));
});
