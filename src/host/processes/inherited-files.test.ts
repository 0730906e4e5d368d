import { expect, it } from "vitest";
import { createHostRoot } from "../files/host-root.ts";
import { createHostTree, type TreeEntry } from "../host-tree.fixture.ts";
import { closeInheritedFiles } from "./inherited-files.ts";

const descriptor = (number: number, flags: string): Record<string, TreeEntry> => ({
  [`/proc/self/fd/${number}`]: { link: "pipe:[1]" },
  [`/proc/self/fdinfo/${number}`]: `pos:\t0\nflags:\t${flags}\nmnt_id:\t15\nino:\t1\n`,
});

it("closeInheritedFiles() closes descriptors that child programs would inherit, except the standard streams", () => {
  using tree = createHostTree({
    ...descriptor(0, "0100000"),
    ...descriptor(1, "0100001"),
    ...descriptor(2, "01"),
    ...descriptor(17, "02000002"),
    ...descriptor(18, "02100000"),
    ...descriptor(63, "0100000"),
    ...descriptor(251, "01"),
    "/proc/self/fd/300": { link: "gone" },
  });
  const closed: number[] = [];
  expect(closeInheritedFiles(createHostRoot(tree.root), (number) => closed.push(number)).sort((a, b) => a - b)).toEqual([63, 251]);
  expect(closed.sort((a, b) => a - b)).toEqual([63, 251]);
});

it("closeInheritedFiles() keeps descriptors that this process opened itself", () => {
  const closed: number[] = [];
  closeInheritedFiles(createHostRoot(), (number) => closed.push(number));
  // The first descriptors were opened by node, not inherited from the test runner.
  expect(closed.filter((number) => number < 16)).toEqual([]);
});
