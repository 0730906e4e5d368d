import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { checkTcpdump, rewriteTcpdump } from "./tcpdump-arguments.ts";

const guard = "(tcp or udp or icmp or arp or (icmp6 and ip6[40] != 139 and ip6[40] != 140))";

describe("rewriteTcpdump()", () => {
  it.each([
    ["-c 5", `-q -c 5 -- ${guard}`],
    ["-c 5 -i any -nn port 6379", `-q -c 5 -i any -n -n -- ${guard} and (port 6379)`],
    ["-c 5 host 10.0.0.1 and tcp", `-q -c 5 -- ${guard} and (host 10.0.0.1 and tcp)`],
    ["port 80 -c5 --interface=lo", `-q -c 5 --interface=lo -- ${guard} and (port 80)`],
    ["-nc5 -i lo tcp port 6379", "-T carp -n -c 5 -i lo -- tcp and (tcp port 6379)"],
    ["-c 5 tcp and (port 80 or (port 443))", "-T carp -c 5 -- tcp and (tcp and (port 80 or (port 443)))"],
    ["-c 5 tcp[13]=2 && host a", "-T carp -c 5 -- tcp and (tcp[13]=2 && host a)"],
    ["-c 5 tcp or udp port 161", `-q -c 5 -- ${guard} and (tcp or udp port 161)`],
    ["-c 5 tcp || ether proto 2", `-q -c 5 -- ${guard} and (tcp || ether proto 2)`],
    ["-c 5 tcpdump", `-q -c 5 -- ${guard} and (tcpdump)`],
    ["-c 5 udp port 53", `-q -c 5 -- ${guard} and (udp port 53)`],
    ["-c 5 -q tcp", `-q -c 5 -q -- ${guard} and (tcp)`],
    ["-c 5 -- port 53", `-q -c 5 -- ${guard} and (port 53)`],
  ])("restricts the filter to protocols without secrets in their headers: %s", (given, expected) => {
    const args = given.split(" ");
    expect(checkTcpdump(args)).toBeUndefined();
    expect(rewriteTcpdump(args).join(" ")).toBe(expected);
  });

  it.each(["-c 5 tcp) or (arp", "-c 5 ) or ( proto ospf", "-c 5 (tcp", "-c 5 -v icmp", "-c 5 -qv icmp", "-c 5 -u"])(
    "refuses %s",
    (given) => {
      expect(checkTcpdump(given.split(" "))).toBeDefined();
    },
  );
});

const program = ["/usr/bin/tcpdump", "/usr/sbin/tcpdump"].find((path) => existsSync(path));

describe("tcpdump with these arguments", () => {
  beforeEach(({ skip }) => skip(program === undefined, "needs tcpdump"));

  it.each(["-c 50", "-c 50 ip or ether proto 0x8864", "-c 50 tcp", "-nec 50 proto 89 or proto 112 or icmp", "-c 50 pppoes or vlan or ip"])(
    "prints headers but no secrets of packets: %s",
    async (given) => {
      const directory = await mkdtemp(join(tmpdir(), "coral-tcpdump-"));
      try {
        const file = join(directory, "packets.pcap");
        await writeFile(file, captureFile(Object.values(packets)));
        const args = given.split(" ");
        expect(checkTcpdump(args)).toBeUndefined();
        // Without these arguments, tcpdump prints all planted passwords.
        const plain = spawnSync(program ?? "", ["-v", "-r", file], { encoding: "utf8" }).stdout;
        for (const name of Object.keys(packets)) expect(plain).toContain(`pw-${name}`);
        const { stdout, stderr } = spawnSync(program ?? "", ["-r", file, ...rewriteTcpdump(args)], { encoding: "utf8" });
        expect(stderr).not.toMatch(/syntax error|can't parse/);
        expect(stdout).not.toContain("pw-");
        expect(stdout).not.toMatch(/0x0000:/);
      } finally {
        await rm(directory, { recursive: true });
      }
    },
  );
});

/** Packets with a password each, in the field of their protocol. */
const packets = {
  ospf: ipPacket(89, Buffer.concat([Buffer.from("02010030010101010000000000000001", "hex"), secret("pw-ospf", 8), Buffer.alloc(24)])),
  vrrp: ipPacket(112, Buffer.concat([Buffer.from("21016401010100000a000001", "hex"), secret("pw-vrrp", 8)])),
  pap: ethernet(
    0x8864,
    pppoe(0xc023, Buffer.concat([Buffer.from("0101001104", "hex"), secret("user", 4), Buffer.of(7), secret("pw-pap", 7)])),
  ),
  redis: ipPacket(6, tcp(6_379, "*2\r\n$4\r\nAUTH\r\n$8\r\npw-redis\r\n")),
  ftp: ipPacket(6, tcp(21, "PASS pw-ftp\r\n")),
  icmp: ipPacket(
    1,
    Buffer.concat([
      Buffer.from("0302000000000000", "hex"),
      ipHeader(112, 20),
      Buffer.from("21016401010100000a000001", "hex"),
      secret("pw-icmp", 8),
    ]),
  ),
};

function secret(text: string, bytes: number): Buffer {
  return Buffer.concat([Buffer.from(text), Buffer.alloc(bytes)], bytes);
}

function ipHeader(protocol: number, bytes: number): Buffer {
  const header = Buffer.alloc(20);
  header[0] = 0x45;
  header.writeUInt16BE(20 + bytes, 2);
  header[8] = 255;
  header[9] = protocol;
  header.set([10, 0, 0, 1], 12);
  header.set([10, 0, 0, 2], 16);
  return header;
}

function ethernet(type: number, payload: Buffer): Buffer {
  const header = Buffer.alloc(14, 2);
  header.writeUInt16BE(type, 12);
  return Buffer.concat([header, payload]);
}

function ipPacket(protocol: number, payload: Buffer): Buffer {
  return ethernet(0x0800, Buffer.concat([ipHeader(protocol, payload.length), payload]));
}

function pppoe(protocol: number, payload: Buffer): Buffer {
  const header = Buffer.from("11000001000000000000", "hex").subarray(0, 8);
  header.writeUInt16BE(payload.length + 2, 4);
  header.writeUInt16BE(protocol, 6);
  return Buffer.concat([header, payload]);
}

function tcp(port: number, text: string): Buffer {
  const header = Buffer.alloc(20);
  header.writeUInt16BE(40_000, 0);
  header.writeUInt16BE(port, 2);
  header[12] = 0x50;
  header[13] = 0x18;
  return Buffer.concat([header, Buffer.from(text)]);
}

/** The format of libpcap, version 2.4, Ethernet. */
function captureFile(frames: readonly Buffer[]): Buffer {
  const header = Buffer.alloc(24);
  header.writeUInt32LE(0xa1b2c3d4, 0);
  header.writeUInt16LE(2, 4);
  header.writeUInt16LE(4, 6);
  header.writeUInt32LE(65_535, 16);
  header.writeUInt32LE(1, 20);
  const records = frames.flatMap((frame) => {
    const record = Buffer.alloc(16);
    record.writeUInt32LE(frame.length, 8);
    record.writeUInt32LE(frame.length, 12);
    return [record, frame];
  });
  return Buffer.concat([header, ...records]);
}
