/** Well-known programs by their common names. Their workers, helpers and renamed copies count as the same service. */

import { basename } from "node:path";

/** By name of the executable, without version and extension. The first match counts. */
const programs: readonly [pattern: RegExp, service: string][] = [
  [/^(?:postgres|postmaster|edb-postgres)$/, "postgres"],
  [/^pgbouncer$/, "pgbouncer"],
  [/^(?:redis-server|redis-sentinel|redis-check-aof|redis-check-rdb)$/, "redis"],
  [/^(?:valkey-server|valkey-sentinel)$/, "valkey"],
  [/^keydb-server$/, "keydb"],
  [/^mysqld(?:_safe|-debug)?$/, "mysql"],
  [/^mariadbd(?:-safe)?$/, "mariadb"],
  [/^mongod$/, "mongodb"],
  [/^mongos$/, "mongos"],
  [/^nginx(?:-debug)?$/, "nginx"],
  [/^openresty$/, "openresty"],
  [/^(?:apache|httpd|httpd\.worker|httpd\.event)$/, "apache"],
  [/^lighttpd$/, "lighttpd"],
  [/^php-?fpm$/, "php-fpm"],
  [/^haproxy$/, "haproxy"],
  [/^envoy$/, "envoy"],
  [/^caddy$/, "caddy"],
  [/^traefik$/, "traefik"],
  [/^varnishd$/, "varnish"],
  [/^squid$/, "squid"],
  [/^memcached$/, "memcached"],
  [/^etcd$/, "etcd"],
  [/^consul$/, "consul"],
  [/^vault$/, "vault"],
  [/^nomad$/, "nomad"],
  [/^(?:sshd|sshd-session|sshd-auth|dropbear)$/, "sshd"],
  [/^(?:clickhouse|clickhouse-server)$/, "clickhouse"],
  [/^influxd$/, "influxdb"],
  [/^cockroach$/, "cockroachdb"],
  [/^(?:grafana|grafana-server)$/, "grafana"],
  [/^nats-server$/, "nats"],
  [/^mosquitto$/, "mosquitto"],
  [/^minio$/, "minio"],
  [/^named$/, "bind"],
  [/^dockerd$/, "docker"],
  [/^docker-proxy$/, "docker-proxy"],
  [/^(?:smbd|nmbd|winbindd)$/, "samba"],
  [/^exim$/, "exim"],
  [/^(?:dovecot|imap-login|pop3-login)$/, "dovecot"],
  [/^(?:otelcol|otelcol-contrib|otel-collector)$/, "otel-collector"],
  [/^(?:rpc\.mountd|rpc\.statd|rpc\.nfsd)$/, "nfs"],
  [/^uwsgi$/, "uwsgi"],
];

/** Main classes of Java servers, whose last word alone would be ambiguous. */
const mainClasses: readonly [pattern: RegExp, service: string][] = [
  [/^(?:kafka\.Kafka|kafka\.docker\.|org\.apache\.kafka\.connect\.)/, "kafka"],
  [/^org\.apache\.zookeeper\.server\./, "zookeeper"],
  [/^org\.elasticsearch\.|^org\.elasticsearch\.server\//, "elasticsearch"],
  [/^org\.opensearch\./, "opensearch"],
  [/^org\.apache\.cassandra\./, "cassandra"],
  [/^org\.apache\.catalina\./, "tomcat"],
  [/^org\.apache\.activemq\./, "activemq"],
  [/^org\.apache\.pulsar\./, "pulsar"],
  [/^org\.apache\.solr\./, "solr"],
  [/^org\.apache\.hadoop\.hdfs\./, "hdfs"],
  [/^org\.apache\.hadoop\.yarn\./, "yarn"],
  [/^org\.apache\.hadoop\.hbase\./, "hbase"],
  [/^org\.apache\.spark\.deploy\./, "spark"],
  [/^org\.apache\.flink\./, "flink"],
  [/^org\.neo4j\./, "neo4j"],
  [/^org\.logstash\./, "logstash"],
  [/^io\.trino\./, "trino"],
  [/^org\.jboss\.modules\./, "jboss"],
  [/^io\.quarkus\.bootstrap\.runner\.QuarkusEntryPoint.*keycloak/, "keycloak"],
  [/^hudson\.|^jenkins\./, "jenkins"],
];

/** A host runs the same few programs many times. */
const remembered = new Map<string, string | null>();
const maxRemembered = 2048;

/** `postgres` of `/usr/lib/postgresql/15/bin/postgres`, `php-fpm` of `php-fpm8.2`; null for programs that are not in the table. */
export function wellKnownProgramOf(executable: string): string | null {
  const known = remembered.get(executable);
  if (known !== undefined) return known;
  const name = basename(executable).replace(/(?:-?v?\d+(?:\.\d+)*)?(?:\.exe)?$/, "");
  const service = programs.find(([pattern]) => pattern.test(name))?.[1] ?? null;
  if (remembered.size >= maxRemembered) remembered.clear();
  remembered.set(executable, service);
  return service;
}

export function wellKnownClassOf(mainClass: string): string | null {
  return mainClasses.find(([pattern]) => pattern.test(mainClass))?.[1] ?? null;
}

/** Erlang's virtual machine runs RabbitMQ, CouchDB and any release; the node's name identifies which. */
export function erlangNameOf(args: readonly string[]): string | null {
  const line = args.slice(0, 512).join(" ").slice(0, 8192);
  if (/\brabbit(?:mq)?\b/.test(line)) return "rabbitmq";
  if (/\bcouch(?:db)?\b/.test(line)) return "couchdb";
  if (/\bemqx\b/.test(line)) return "emqx";
  if (/\bejabberd\b/.test(line)) return "ejabberd";
  const node = /\s-s?name\s+([\w.-]+)/.exec(line)?.[1];
  return node?.split("@")[0] ?? /\/([\w-]+)\/releases\//.exec(line)?.[1] ?? null;
}
