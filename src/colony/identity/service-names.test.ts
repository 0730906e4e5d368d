import { describe, expect, it } from "vitest";
import { ServiceNames } from "./service-names.ts";

const row = (id: string, label: string, name: string, more: { aliases?: string[]; formerNames?: string[] } = {}) => ({
  id,
  label,
  name,
  origin: null,
  aliases: [],
  formerNames: [],
  ...more,
});

const names = new ServiceNames({
  services: [
    row("program:worker#01", "worker (billing)", "worker"),
    row("program:worker#02", "worker (images)", "worker"),
    row("unit:shop", "checkout", "checkout", { formerNames: ["shop"], aliases: ["shop.example.com"] }),
  ],
  texts: [
    { text: "program:worker#01", id: "program:worker#01", label: "worker (billing)" },
    { text: "program:worker#02", id: "program:worker#02", label: "worker (images)" },
    { text: "unit:shop", id: "unit:shop", label: "checkout" },
    { text: "checkout", id: "unit:shop", label: "checkout" },
    { text: "shop", id: "unit:shop", label: "checkout" },
  ],
});

describe("ServiceNames", () => {
  it.each([
    ["unit:shop", "checkout"],
    ["shop", "checkout"],
    ["program:worker#02", "worker (images)"],
    ["program:gone#0f", "gone"],
    ["worker", "worker"],
    ["s3.amazonaws.com", "s3.amazonaws.com"],
  ])("labels %s as %s", (text, label) => {
    expect(names.labelOf(text)).toBe(label);
  });

  it.each<[string, string[]]>([
    ["checkout", ["unit:shop", "checkout", "shop"]],
    ["unit:shop", ["unit:shop", "checkout", "shop"]],
    ["SHOP.example.com", ["unit:shop", "checkout", "shop", "SHOP.example.com"]],
    ["worker (images)", ["program:worker#02"]],
    ["worker", ["program:worker#01", "program:worker#02", "worker"]],
    ["payments", ["payments"]],
  ])("finds the row keys of %s", (asked, texts) => {
    expect(names.textsOf(asked)).toEqual(texts);
  });

  it("finds the id behind a name in telemetry", () => {
    expect([names.idOf("shop"), names.idOf("worker"), names.idOf("unit:shop")]).toEqual(["unit:shop", "worker", "unit:shop"]);
  });
});
