import { describe, expect, it } from "vitest";
import { SeededRandom } from "../../base/seeded-random.fixture.ts";
import * as recordings from "../protocols/recorded.fixture.ts";
import { recognise } from "./recognise.ts";

const protocols = [
  [/^mariadb/, "mysql"],
  [/^redis/, "redis"],
  [/^memcached/, "memcached"],
  [/^(?:psql|pgbench)/, "postgres"],
  [/^dnsTcp/, "dns"],
] as const;

describe("recognise()", () => {
  it.each(Object.entries(recordings).filter(([name]) => name !== "dnsUdp"))("finds the requests in %s", (name, recording) => {
    const protocol = protocols.find(([pattern]) => pattern.test(name))?.[1];
    let known = 0;
    for (const [from, lengthBytes, head] of recording as readonly recordings.RecordedPayload[]) {
      const bytes = Buffer.from(head, "base64");
      const found = recognise(bytes, lengthBytes, null);
      if (found === null) continue;
      expect(found, bytes.toString("latin1")).toEqual({ protocol, isRequest: from === "client" });
      known++;
    }
    // Compressed MySQL is recognised only by its greeting, inline Redis by its replies.
    expect(known).toBeGreaterThanOrEqual(1);
  });

  it.each([
    ["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "http2", true],
    ["GET /a HTTP/1.1\r\n", "http", true],
    ["HTTP/1.1 200 OK\r\n", "http", false],
    ["SSH-2.0-OpenSSH_9.2\r\n", null, null],
    ["220 mail.example.com ESMTP\r\n", null, null],
    ["\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", null, null],
    ["RFB 003.008\n", null, null],
    ["BitTorrent protocol", null, null],
    ['{"jsonrpc":"2.0","id":1}\n', null, null],
    ['INFO {"server_id":"x"}\r\n', null, null],
    ['CONNECT {"verbose":false}\r\n', null, null],
    ["\x10\x0c\x00\x04MQTT\x04\x02\x00\x3c\x00\x00", null, null],
    ["AMQP\x00\x00\x09\x01", null, null],
    ["", null, null],
  ])("recognises %j as %s", (text, protocol, isRequest) => {
    const bytes = Buffer.from(text, "latin1");
    expect(recognise(bytes, bytes.length, null)).toEqual(protocol === null ? null : { protocol, isRequest });
  });

  it("recognises no protocol in random bytes", () => {
    const random = new SeededRandom(8);
    let wrong = 0;
    for (let round = 0; round < 20_000; round++) {
      const bytes = Buffer.from(Array.from({ length: random.below(80) }, () => random.below(256)));
      if (recognise(bytes, bytes.length, null) !== null) wrong++;
    }
    expect(wrong).toBeLessThanOrEqual(2);
  });
});
