/** A DNS server on loopback, over UDP and TCP, with scripted answers, malformed ones included. */

import { createSocket, type Socket } from "node:dgram";
import { once } from "node:events";
import { createServer, type Server } from "node:net";

export const recordTypes = { A: 1, CNAME: 5, PTR: 12, AAAA: 28 } as const;

export interface DnsQuestion {
  id: number;
  /** Lower case, without final dot. */
  name: string;
  type: number;
  transport: "udp" | "tcp";
  /** The question section as received. */
  bytes: Buffer;
}

/** Bytes are sent as is; undefined: no answer. */
export type DnsReply = Buffer | undefined;

export interface DnsServer extends AsyncDisposable {
  /** `127.0.0.1:port`. */
  address: string;
  questions: DnsQuestion[];
}

/** Listens on the same port number for UDP and TCP. */
export async function startDnsServer(answer: (question: DnsQuestion) => DnsReply | Promise<DnsReply>): Promise<DnsServer> {
  const questions: DnsQuestion[] = [];
  const { udp, tcp, port } = await bindBoth();
  const reply = async (message: Buffer, transport: "udp" | "tcp"): Promise<DnsReply> => {
    const question = parseQuestion(message, transport);
    questions.push(question);
    return answer(question);
  };
  let isOpen = true;
  udp.on("message", (message, peer) => {
    void reply(message, "udp").then((bytes) => {
      if (bytes && isOpen) udp.send(bytes, peer.port, peer.address);
    });
  });
  tcp.on("connection", (socket) => {
    socket.on("error", () => socket.destroy());
    socket.on("data", (chunk) => {
      void reply(chunk.subarray(2), "tcp").then((bytes) => {
        if (!bytes) return socket.destroy();
        const length = Buffer.alloc(2);
        length.writeUInt16BE(bytes.length);
        return socket.end(Buffer.concat([length, bytes]));
      });
    });
  });
  return {
    address: `127.0.0.1:${port}`,
    questions,
    [Symbol.asyncDispose]: async () => {
      isOpen = false;
      udp.close();
      tcp.close();
      await once(tcp, "close");
    },
  };
}

/** A port that is free for UDP may be in use for TCP; then another one is tried. */
async function bindBoth(): Promise<{ udp: Socket; tcp: Server; port: number }> {
  for (let tries = 0; ; tries++) {
    const udp = createSocket("udp4");
    const tcp = createServer();
    udp.bind(0, "127.0.0.1");
    await once(udp, "listening");
    const { port } = udp.address();
    tcp.listen(port, "127.0.0.1");
    try {
      await once(tcp, "listening");
      return { udp, tcp, port };
    } catch (error) {
      udp.close();
      if (tries === 50) throw error;
    }
  }
}

function parseQuestion(message: Buffer, transport: "udp" | "tcp"): DnsQuestion {
  const labels: string[] = [];
  let at = 12;
  for (let length = message[at] ?? 0; length > 0; length = message[at] ?? 0) {
    labels.push(message.toString("latin1", at + 1, at + 1 + length));
    at += 1 + length;
  }
  const type = message.readUInt16BE(at + 1);
  return { id: message.readUInt16BE(0), name: labels.join(".").toLowerCase(), type, transport, bytes: message.subarray(12, at + 5) };
}

export interface DnsRecord {
  type: number;
  data: Buffer;
}

/** A well-formed answer. `rcode` 3 is NXDOMAIN, 2 SERVFAIL, 5 REFUSED. */
export function dnsReply(question: DnsQuestion, records: readonly DnsRecord[], rcode = 0, isTruncated = false): Buffer {
  const header = Buffer.alloc(12);
  header.writeUInt16BE(question.id, 0);
  header.writeUInt16BE(0x8180 | rcode | (isTruncated ? 0x0200 : 0), 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(records.length, 6);
  const answers = records.map(({ type, data }) => {
    const fixed = Buffer.alloc(12);
    fixed.writeUInt16BE(0xc00c, 0); // the name of the question
    fixed.writeUInt16BE(type, 2);
    fixed.writeUInt16BE(1, 4);
    fixed.writeUInt32BE(300, 6);
    fixed.writeUInt16BE(data.length, 10);
    return Buffer.concat([fixed, data]);
  });
  return Buffer.concat([header, question.bytes, ...answers]);
}

/** Labels may contain any byte. */
export function ptrRecord(...labels: string[]): DnsRecord {
  const parts = labels.map((label) => Buffer.concat([Buffer.from([Buffer.byteLength(label)]), Buffer.from(label)]));
  return { type: recordTypes.PTR, data: Buffer.concat([...parts, Buffer.from([0])]) };
}

export function ptrTo(hostName: string): DnsRecord {
  return ptrRecord(...hostName.split("."));
}

export function addressRecord(address: string): DnsRecord {
  return { type: recordTypes.A, data: Buffer.from(address.split(".").map(Number)) };
}
