import { describe, expect, it } from "vitest";
import { configArgumentsOf } from "./config-argument.ts";

const of = (line: string): string => {
  const { file, dataDirectory } = configArgumentsOf(line.split(" "), "/srv/x");
  return `${file} ${dataDirectory}`;
};

describe("configArgumentsOf()", () => {
  it.each([
    ["-c /etc/a.conf", "/etc/a.conf null"],
    ["-f site.cfg", "/srv/x/site.cfg null"],
    ["--config=/etc/a.toml -v", "/etc/a.toml null"],
    ["--config-file ./b.yaml", "/srv/x/b.yaml null"],
    ["--config.file=/etc/prometheus.yml", "/etc/prometheus.yml null"],
    ["--defaults-file=/etc/my.cnf --datadir=/data/a", "/etc/my.cnf /data/a"],
    ["-D /var/lib/postgresql/15/main -c config_file=/etc/x.conf", "null /var/lib/postgresql/15/main"],
    ["/etc/redis/a.conf --port 0", "/etc/redis/a.conf null"],
    ["serve settings.ini other.ini", "/srv/x/settings.ini null"],
    ["-c 4", "null null"],
    ["-c log_statement=all", "null null"],
    ["--config", "null null"],
    ["--config https://host/a.yaml", "null null"],
    ["-f -c", "null null"],
    ["-p 8080 --host 0.0.0.0", "null null"],
  ])("%s", (line, expected) => {
    expect(of(line)).toBe(expected);
  });
});
