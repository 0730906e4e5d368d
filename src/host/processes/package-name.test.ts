import { describe, expect, it } from "vitest";
import { createHostRoot } from "../files/host-root.ts";
import { createHostTree } from "../host-tree.fixture.ts";
import { crateNameOf, packageNameOf } from "./package-name.ts";

describe("packageNameOf()", () => {
  it.each([
    ["package.json", '{"name":"@acme/checkout","version":"1.0.0"}', "checkout"],
    ["package.json", '{"dependencies":{"name":"1"},"name":"checkout"}', "checkout"],
    ["package.json", '{"name":"app"}', null],
    ["package.json", '{"name":', null],
    ["package.json", "{}", null],
    ["pyproject.toml", '[project]\nname = "billing"\nversion = "1"\n', "billing"],
    ["composer.json", '{"name":"acme/blog"}', "blog"],
  ])("reads %s: %j", (file, text, expected) => {
    using tree = createHostTree({ [`app/${file}`]: text });
    const program = {
      prefix: "",
      files: [
        { path: "/app/server.js", use: "content" as const },
        { path: `/app/${file}`, use: "version" as const },
      ],
      atStart: null,
    };
    expect(packageNameOf(createHostRoot(tree.root), program)).toBe(expected);
  });
});

it("finds the crate of an executable above it", () => {
  using tree = createHostTree({ "app/Cargo.toml": '[package]\nname = "ledger"\n', "app/target/release/server": "" });
  const root = createHostRoot(tree.root);
  expect(crateNameOf(root, "/app/target/release/server")).toBe("ledger");
  expect(crateNameOf(root, "/srv/server")).toBeNull();
});
