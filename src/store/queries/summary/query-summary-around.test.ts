import { describe, expect, it } from "vitest";
import { silentLogger } from "../../../base/log.ts";
import { openColonyStore } from "../../colony/colony-store.ts";
import { derivedSignals, signals } from "../../signals/signal-list.ts";
import { TestClock, temporaryFolder, testEngine } from "../../store.fixture.ts";
import { queryServiceDetails } from "./query-service-details.ts";
import { querySummary } from "./query-summary.ts";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

describe("querySummary() for facts other than requests", () => {
  it("returns span requests, control groups at their limits, error patterns and events, each for its service", async () => {
    using folder = temporaryFolder();
    await using engine = await testEngine(folder.path);
    const time = new TestClock();
    const nowMs = time.wall + 3 * hourMs;
    await using store = await openColonyStore(engine, {
      file: folder.file("colony.duckdb"),
      signals: [...signals, ...derivedSignals],
      maxBytes: 1024 ** 3,
      clock: time,
      log: silentLogger,
    });
    const at = (agoMs: number): string => `make_timestamp(${(nowMs - agoMs) * 1_000})`;
    const head = (agoMs: number): string => `1, 1, ${at(agoMs)}, 0, ${at(agoMs)}, 0`;
    const names = 'source, ingest, stored_at, seq, "time", mono_ms';
    await store.write(async (transaction) => {
      await transaction.run(`INSERT INTO internal.sources VALUES (1, 'web-1', 'e', ${at(0)}, ${at(0)}, '{}', '{}')`);
      for (let minute = 0; minute < 120; minute++) {
        const [count, bucket] = minute < 5 ? [30, 200] : [60, 100];
        await transaction.run(
          `INSERT INTO raw.span_red (${names}, service, role, protocol, method, route, status, is_error, version, window_ms, spans, requests, duration_us, duration_lo, duration_counts)
           VALUES (${head(minute * minuteMs + 30_000)}, 'lambda', 'server', 'http', 'GET', '/', '200', false, '1', 10000, ${count}, ${count}, 1000, ${bucket}, [${count}])`,
        );
      }
      for (const [agoMs, client, server] of [
        [minuteMs, "web", "lambda"],
        [2 * minuteMs, "lambda", "store"],
        [30 * minuteMs, "lambda", "store"],
        [minuteMs, "web", "other"],
      ] as const)
        await transaction.run(
          `INSERT INTO raw.span_edge (${names}, client, server, protocol, window_ms, requests, errors, first_seen, last_seen, duration_lo, duration_counts)
           VALUES (${head(agoMs)}, '${client}', '${server}', 'http', 60000, 40, 4, ${at(agoMs)}, ${at(agoMs)}, 150, [40])`,
        );
      for (const [cgroup, throttled, kills] of [
        ["/api", 0.4, 0],
        ["/fine", 0, 0],
        ["/killed", 0, 1],
      ] as const) {
        for (const agoMs of [10_000, 25_000])
          await transaction.run(
            `INSERT INTO raw.host_cgroup (${names}, cgroup, cpu_cores, throttled_ratio, oom_kills) VALUES (${head(agoMs)}, '${cgroup}', 0.5, ${throttled}, ${kills})`,
          );
        for (const service of [`of-${cgroup.slice(1)}`, ...(cgroup === "/killed" ? ["beside"] : [])])
          await transaction.run(
            `INSERT INTO net.service_instances (agent_id, service, protocol, port, address, pid, start_ticks, netns, content, named_by, confidence, method, cgroup, managed, first_seen)
             VALUES ('web-1', '${service}', 'tcp', 1, '', 1, 1, 1, 1, 'script', 1, 'm', '${cgroup}', false, ${at(0)})`,
          );
      }
      // The process was moved into its group after it was found.
      await transaction.run(
        `INSERT INTO net.service_instances (agent_id, service, protocol, port, address, pid, start_ticks, netns, content, named_by, confidence, method, cgroup, managed, first_seen)
         VALUES ('web-1', 'moved', 'tcp', 2, '', 77, 5, 1, 1, 'script', 1, 'm', '/', false, ${at(0)})`,
      );
      await transaction.run(
        `INSERT INTO raw.host_process (${names}, pid, start_ticks, name, user_id, cgroup, state, cpu_cores, rss_bytes, threads, major_faults_per_s)
         VALUES (${head(10_000)}, 77, 5, 'moved', 0, '/api', 'R', 0.2, 1, 1, 0)`,
      );
      for (const [agoMs, pattern, severity, isNew] of [
        [minuteMs, "p1", "error", true],
        [minuteMs, "p2", "error", false],
        [20 * minuteMs, "p2", "error", false],
        [minuteMs, "p3", "info", true],
        [30 * minuteMs, "p4", "error", true],
      ] as const)
        await transaction.run(
          `INSERT INTO raw.log_pattern (${names}, service, pattern, template, severity, records, is_new) VALUES (${head(agoMs)}, 'api', '${pattern}', 't ${pattern}', '${severity}', 5, ${isNew})`,
        );
      for (const [agoMs, service] of [
        [2 * minuteMs, "cron"],
        [10 * minuteMs, "quiet"],
      ] as const)
        await transaction.run(
          `INSERT INTO raw.log_pattern (${names}, service, pattern, template, severity, records, is_new) VALUES (${head(agoMs)}, '${service}', 'p5', 't', 'info', 1, false)`,
        );
      await transaction.run(
        `INSERT INTO registry.events VALUES (${at(minuteMs)}, 'egress-new', 'web-1', 'new', '{"service": "api"}'), (${at(minuteMs)}, 'agent-joined', 'web-1', 'no', '{}')`,
      );
    });
    const all = await querySummary(store, { sinceMs: 5 * minuteMs, nowMs });
    const byPeriod = Object.fromEntries(all.requests.map((row) => [row.period, row]));
    expect(byPeriod["now"]).toMatchObject({ source: "spans", service: "lambda", requests: 150 });
    // The colony started three hours ago: the hour before the window serves as a baseline.
    expect(byPeriod["before"]).toMatchObject({ requests: 60 * 60, coveredMs: hourMs });
    expect(byPeriod["yesterday"]).toBeUndefined();
    expect(byPeriod["now"]!.p95Us! / byPeriod["before"]!.p95Us!).toBeGreaterThan(50);
    expect(all.cgroups.map(({ cgroup, services, throttledRatio, oomKills }) => ({ cgroup, services, throttledRatio, oomKills }))).toEqual(
      expect.arrayContaining([
        { cgroup: "/api", services: ["moved", "of-api"], throttledRatio: expect.closeTo(0.4, 6), oomKills: 0 },
        { cgroup: "/killed", services: ["beside", "of-killed"], throttledRatio: 0, oomKills: 2 },
      ]),
    );
    expect(all.cgroups).toHaveLength(2);
    const patterns = (rows: typeof all.patterns): string[] =>
      rows.map(({ pattern, isNew, records, recordsBefore }) => `${pattern} ${isNew} ${records} ${recordsBefore}`).sort();
    expect(patterns(all.patterns)).toEqual(["p1 true 5 0", "p2 false 5 5"]);
    expect(patterns((await querySummary(store, { sinceMs: 5 * minuteMs, nowMs, service: "api" })).patterns)).toEqual([
      "p1 true 5 0",
      "p2 false 5 5",
      "p3 true 5 0",
    ]);
    expect(all.logServices).toEqual(["api", "cron"]);
    const short = { sinceMs: minuteMs, nowMs };
    expect((await querySummary(store, short)).logServices).toEqual(["api", "cron"]);
    expect((await querySummary(store, { ...short, service: "cron" })).logServices).toEqual(["cron"]);
    expect((await querySummary(store, { ...short, service: "quiet" })).logServices).toEqual([]);
    expect(all.windowMs).toBeGreaterThan(4 * minuteMs);
    expect(all.events).toMatchObject([{ kind: "egress-new", service: "api", severity: "warning" }]);
    const { peers, routes } = await queryServiceDetails(store, { service: "lambda", source: "spans", sinceMs: 5 * minuteMs, nowMs });
    expect(peers.map(({ period, role, peer, requests, errors }) => `${period} ${role} ${peer} ${requests} ${errors}`).sort()).toEqual([
      "before client store 40 4",
      "now client store 40 4",
      "now server web 40 4",
    ]);
    expect(routes.map(({ period, route, requests }) => `${period} ${route} ${requests}`)).toEqual(["now / 150", "before / 3600"]);
    expect((await querySummary(store, { sinceMs: 5 * minuteMs, nowMs, service: "of-fine" })).cgroups).toMatchObject([{ cgroup: "/fine" }]);
  });
});
