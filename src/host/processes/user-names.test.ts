import { utimesSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createHostRoot } from "../files/host-root.ts";
import { createHostTree } from "../host-tree.fixture.ts";
import { createUserNames, parsePasswd } from "./user-names.ts";

describe("createUserNames()", () => {
  it("reads the host's users, again when the file changes, and those of a container", () => {
    using tree = createHostTree({
      "etc/passwd": "root:x:0:0::/root:/bin/sh\nwww:x:33:33::/:\n",
      "proc/7/root/etc/passwd": "app:x:33:33::/:\n",
    });
    const users = createUserNames(createHostRoot(tree.root));
    users.refresh();
    expect([users.of(0), users.of(33), users.of(99)]).toEqual(["root", "www", null]);
    expect(users.of(33, { key: "c1", rootOf: "/proc/7/root" })).toBe("app");
    tree.write({ "etc/passwd": "root:x:0:0::/root:/bin/sh\nnew:x:33:33::/:\n" });
    utimesSync(join(tree.root, "etc/passwd"), 5, 5);
    users.refresh();
    expect(users.of(33)).toBe("new");
  });

  it("uses the first of two names, and skips malformed lines", () => {
    expect([...parsePasswd("a:x:1:1\nb:x:1:1\nc:x::1\n:x:2:2\nd:x:-3:1\n\u001be:x:4:4")]).toEqual([
      [1, "a"],
      [4, "e"],
    ]);
  });
});
