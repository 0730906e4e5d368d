import { describe, expect, it } from "vitest";
import { damagedTexts } from "../../base/damaged-texts.fixture.ts";
import { createHostRoot } from "../files/host-root.ts";
import { createHostTree, hasSaneNumbers } from "../host-tree.fixture.ts";
import { parseNetDev, readInterfaces } from "./net-dev.ts";

const netDev = `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:    3193      29    0    0    0     0          0         0     3193      29    0    0    0     0       0          0
  ifb0:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0
  eth0:268077306   10531    1    2    0     0          0         0   761417    7306    3    4    0     0       0          0
`;

describe("parseNetDev()", () => {
  it("reads interfaces that carried something, also without a blank after the colon", () => {
    const { interfaces } = parseNetDev(netDev);
    expect(interfaces.map((item) => item.name)).toEqual(["lo", "eth0"]);
    expect(interfaces[1]).toEqual({
      name: "eth0",
      rxBytes: 268077306,
      rxPackets: 10531,
      rxErrors: 1,
      rxDrops: 2,
      txBytes: 761417,
      txPackets: 7306,
      txErrors: 3,
      txDrops: 4,
    });
  });

  it("keeps the busiest when there are too many", () => {
    const many = Array.from({ length: 100 }, (_, index) => `veth${index}: ${index} 1 0 0 0 0 0 0 0 1 0 0 0 0 0 0`).join("\n");
    const scan = parseNetDev(many);
    expect(scan.cut).toBe(36);
    expect(scan.interfaces[0]!.name).toBe("veth99");
    expect(scan.interfaces).toHaveLength(64);
  });

  it("tolerates malformed input", () => {
    for (const text of damagedTexts([netDev], 7)) expect(hasSaneNumbers(parseNetDev(text)), JSON.stringify(text)).toBe(true);
  });
});

describe("readInterfaces()", () => {
  it("under another root, reads through the host's first process instead of the agent's container", () => {
    using tree = createHostTree({ "proc/1/mountinfo": "", "proc/1/net/dev": netDev, "proc/self/net/dev": "" });
    expect(readInterfaces(createHostRoot(tree.root)).interfaces).toHaveLength(2);
  });
});
