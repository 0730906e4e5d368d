import { describe, expect, it } from "vitest";
import { damagedTexts } from "../../base/damaged-texts.fixture.ts";
import { createHostRoot } from "../files/host-root.ts";
import { createHostTree, hasSaneNumbers } from "../host-tree.fixture.ts";
import { parseSnmp, readTcp } from "./net-snmp.ts";

const snmp = `Ip: Forwarding DefaultTTL
Ip: 1 64
Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab InSegs OutSegs RetransSegs InErrs OutRsts InCsumErrors
Tcp: 1 200 120000 -1 55 2 9 0 17 10524 7295 33 0 92 0
UdpLite: InDatagrams
UdpLite: 0
`;
const netstat = `TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPHPHits
TcpExt: 0 5 6 85
IpExt: InNoRoutes
IpExt: 0
`;

describe("parseSnmp()", () => {
  it("finds columns by name in their own section", () => {
    expect(parseSnmp(snmp, "Tcp").get("OutSegs")).toBe(7295);
    expect(parseSnmp(snmp, "Tcp").get("Forwarding")).toBeUndefined();
    expect(parseSnmp(snmp, "Udp").size).toBe(0);
  });

  it("tolerates malformed input", () => {
    for (const text of damagedTexts([snmp, netstat], 8)) expect(hasSaneNumbers(parseSnmp(text, "Tcp")), JSON.stringify(text)).toBe(true);
  });
});

describe("readTcp()", () => {
  it("reads both files", () => {
    using tree = createHostTree({ "proc/self/net/snmp": snmp, "proc/self/net/netstat": netstat });
    expect(readTcp(createHostRoot(tree.root))).toEqual({
      established: 17,
      outSegments: 7295,
      retransmits: 33,
      attemptFails: 9,
      resetsSent: 92,
      listenOverflows: 5,
      listenDrops: 6,
    });
  });
});
