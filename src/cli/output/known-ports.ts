import { protocolTitleOfPort } from "../../model/protocols.ts";

/** Well-known ports of protocols that Coral does not decode. A guess, not an observation. */
const otherProtocols: Readonly<Record<number, string>> = {
  22: "SSH",
  25: "SMTP",
  123: "NTP",
  389: "LDAP",
  443: "HTTPS",
  465: "SMTPS",
  587: "SMTP",
  636: "LDAPS",
  853: "DNS over TLS",
  993: "IMAPS",
  1433: "SQL Server",
  1521: "Oracle",
  1883: "MQTT",
  2181: "ZooKeeper",
  2379: "etcd",
  4222: "NATS",
  4317: "OTLP",
  4318: "OTLP/HTTP",
  5671: "AMQPS",
  5672: "AMQP",
  6443: "Kubernetes API",
  8086: "InfluxDB",
  8883: "MQTT",
  9042: "Cassandra",
  9200: "Elasticsearch",
};

/** `PostgreSQL`, or `TCP 8080` for a port without a conventional protocol. */
export function protocolName(protocol: string, port: number): string {
  return protocolTitleOfPort(port) ?? otherProtocols[port] ?? `${protocol.toUpperCase()} ${port}`;
}
