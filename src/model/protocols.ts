/**
 * Every protocol whose requests Coral reads, declared once. From this table come the kernel's `enum protocol` (probes/protocol/protocols.h, by
 * `npm run generate`), the choices in config and CLI, the names on screen, well-known ports, and the list in docs/traffic.md (by `npm run docs`).
 */

interface Protocol {
  /** Stored in rows, and written by users in config and on the command line. Becomes `PROTOCOL_<NAME>` in the kernel. */
  name: string;
  /** As the project or standard writes its own name. */
  title: string;
  /** The server port registered or customary for it, if there is one. A hint for display; recognition never looks at ports. */
  port?: number;
  /** True if the kernel pairs and counts requests itself, so that they stay exact when the agent steps down its budget ladder. */
  countedInKernel?: true;
  /** One row of docs/traffic.md, in Markdown: what becomes method and route, what becomes status, and which of those are errors. */
  docs: { route: string; status: string };
}

/** The position, from 1 on, is the protocol's number in the kernel and in ring records. Numbers are not stored, so the order may change. */
const protocols = [
  {
    name: "http",
    title: "HTTP",
    port: 80,
    countedInKernel: true,
    docs: {
      route: "HTTP/1.0 and 1.1: method, path template",
      status: "status code; errors: 5xx, for a client also 4xx, and `no-reply`",
    },
  },
  {
    name: "http2",
    title: "HTTP/2",
    docs: {
      route: "method, path template; pushed responses are not counted",
      status: "as HTTP; a reset response is an error, too",
    },
  },
  {
    name: "grpc",
    title: "gRPC",
    docs: {
      route: "`POST`, `package.Service/Method`",
      status: "grpc-status; errors: for a server 2, 4 and 12 to 15, for a client all but 0. A call canceled at its `grpc-timeout` is 4",
    },
  },
  {
    name: "postgres",
    title: "PostgreSQL",
    port: 5432,
    countedInKernel: true,
    docs: {
      route: "verb, SQL without literals; one request per Query and per Execute",
      status: "SQLSTATE; all are errors. Statements that a failed pipeline skips get the SQLSTATE of the failure",
    },
  },
  {
    name: "mysql",
    title: "MySQL",
    port: 3306,
    docs: {
      route: "MySQL and MariaDB: verb, SQL without literals; `PREPARE`; `PING` and other commands by name",
      status: "error number (`1146`); all are errors. Compressed connections are `undecoded`",
    },
  },
  {
    name: "redis",
    title: "Redis",
    port: 6379,
    countedInKernel: true,
    docs: {
      route: "command, with its subcommand (`CONFIG GET`); inline commands only after `PING` or RESP",
      status: "first word of the error reply; all are errors. Messages to subscribers and the stream after `PSYNC` are not replies",
    },
  },
  {
    name: "memcached",
    title: "memcached",
    port: 11211,
    docs: {
      route: "command; text and binary protocol",
      status: "`HIT`, `MISS`, `STORED`, …; errors: `ERROR`, `CLIENT_ERROR`, `SERVER_ERROR`, binary failures",
    },
  },
  {
    name: "mongodb",
    title: "MongoDB",
    port: 27017,
    docs: {
      route: "command, command and collection; compressed messages are `unknown`",
      status: "error code, or that of the first failed write; all are errors",
    },
  },
  {
    name: "kafka",
    title: "Kafka",
    port: 9092,
    docs: {
      route: "API; with the topic for Produce and Fetch below version 13",
      status: "error code, where the response begins with it; errors: all but 0",
    },
  },
  {
    name: "dns",
    title: "DNS",
    port: 53,
    docs: {
      route: "over UDP and TCP: record type, name; random labels and reverse lookups become `{id}`",
      status: "rcode; errors: all but `NOERROR` and `NXDOMAIN`, and no response within 5 s",
    },
  },
  {
    name: "tls",
    title: "TLS",
    countedInKernel: true,
    docs: {
      route: "no requests: the ClientHello names the server (SNI)",
      status: "–",
    },
  },
] as const satisfies readonly Protocol[];

export type TrafficProtocol = (typeof protocols)[number]["name"];

const table: readonly (Protocol & { name: TrafficProtocol })[] = protocols;

/** Every protocol's name. The kernel's number is the position plus 1; 0 is an unknown protocol. */
export const trafficProtocols: readonly TrafficProtocol[] = table.map(({ name }) => name);

/** Undefined for 0 (unknown), 255 (ignored) and anything else that is not in the table. */
export function protocolOfNumber(number: number): TrafficProtocol | undefined {
  return trafficProtocols[number - 1];
}

export function protocolNumber(protocol: TrafficProtocol): number {
  return trafficProtocols.indexOf(protocol) + 1;
}

/** `PostgreSQL` for `postgres`; undefined for names of other origin, such as those that spans carry. */
export function protocolTitle(name: string): string | undefined {
  return table.find((protocol) => protocol.name === name)?.title;
}

/** What a server at this port is likely to speak, as a title. */
export function protocolTitleOfPort(port: number): string | undefined {
  return table.find((protocol) => protocol.port === port)?.title;
}

/** Protocols that remain when the agent reads no payloads in user space. */
export const protocolsCountedInKernel: ReadonlySet<TrafficProtocol> = new Set(
  table.filter(({ countedInKernel }) => countedInKernel).map(({ name }) => name),
);

/** The list in docs/traffic.md. */
export function renderProtocolTable(): string {
  const lines = table.map(({ name, title, docs }) => `| ${title} | \`${name}\` | ${docs.route} | ${docs.status} |`);
  return ["| protocol | name | method, route | status; which are errors |", "| --- | --- | --- | --- |", ...lines].join("\n");
}
