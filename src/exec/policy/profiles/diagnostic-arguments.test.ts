import { describe, expect, it } from "vitest";
import { checkTcpdump, rewriteTcpdump } from "./diagnostic-arguments.ts";

describe("rewriteTcpdump()", () => {
  it.each([
    ["-c 5", "-q -c 5"],
    ["-c 5 -i any -nn port 6379", "-q -c 5 -i any -nn port 6379"],
    ["-c 5 host 10.0.0.1 and tcp", "-q -c 5 host 10.0.0.1 and tcp"],
    ["-nc5 -i lo tcp port 6379", "-T carp -nc5 -i lo tcp port 6379"],
    ["-c 5 tcp and (port 80 or (port 443))", "-T carp -c 5 tcp and (port 80 or (port 443))"],
    ["-c 5 tcp[13]=2 && host a", "-T carp -c 5 tcp[13]=2 && host a"],
    ["-c 5 tcp or udp port 161", "-q -c 5 tcp or udp port 161"],
    ["-c 5 tcp || ether proto 2", "-q -c 5 tcp || ether proto 2"],
    ["-c 5 tcp) or (arp", "-q -c 5 tcp) or (arp"],
    ["-c 5 tcpdump", "-q -c 5 tcpdump"],
    // DNS names may be shown, so the filter must match DNS traffic only.
    ["-c 5 udp port 53", "-c 5 udp port 53"],
    ["-c 5 port domain and src host 10.0.0.1", "-c 5 port domain and src host 10.0.0.1"],
    ["-c 5 port 53 or port 6379", "-q -c 5 port 53 or port 6379"],
    ["-c 5 port 53 and host a or port 6379", "-q -c 5 port 53 and host a or port 6379"],
    ["-i port -c 53 port 161", "-q -i port -c 53 port 161"],
    ["-c 5 -qv tcp", "-c 5 -qv tcp"],
    ["-c 5 -- port 53", "-c 5 -- port 53"],
  ])("shows no payload but DNS names: %s", (given, expected) => {
    const args = given.split(" ");
    expect(checkTcpdump(args)).toBeUndefined();
    expect(rewriteTcpdump(args).join(" ")).toBe(expected);
  });
});
