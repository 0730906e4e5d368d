/** A colony's data about many services, except spans: requests counted by hooks and by spans, host load, log patterns, events and deployments. */

import type { ColonyStore } from "../../src/store/colony/index.ts";

/** Size and end of the generated data. */
export interface RequestWorld {
  /** Named `service-0` and so on, two instances each. */
  services: number;
  agents: number;
  /** The world ends at this wall time. */
  nowMs: number;
}

/** Numbers of services, the second exclusive. */
type Services = readonly [number, number];

const minuteMs = 60_000;

const timestamp = (ms: number): string => `make_timestamp(${Math.floor(ms) * 1_000})`;

/** One row per service, route and step; each service has three routes, one of which fails occasionally. */
function rowsSql(agents: number, stepMs: number, fromMs: number, untilMs: number, [first, until]: Services): string {
  const counts = `list_transform(range(20), lambda i: 1 + (hash(s, t, r, i) % 40)::UINTEGER)`;
  return `SELECT 1 + s % ${agents} AS source, ${timestamp(Math.floor(fromMs / stepMs) * stepMs)} + t * INTERVAL ${stepMs / 1_000} SECOND AS moment, 'service-' || s AS service,
    '/api/v1/things/{id}/' || r AS route, CASE WHEN hash(s, t, r) % 50 = 0 THEN '500' ELSE '200' END AS status, hash(s, t, r) % 50 = 0 AS failed,
    400 AS n, 800000 AS us, 120 + (hash(s) % 60)::BIGINT AS lo, ${counts} AS d, s
    FROM range(0, ${Math.floor((untilMs - fromMs) / stepMs)}) a(t), range(${first}, ${until}) b(s), range(3) c(r)`;
}

const common = "service, role, protocol, method, route, status, is_error";
const commonValues = "service, 'server', 'http', 'GET', route, status, failed";
const hookKeys = "is_tls, server_port, peer_address, peer";
const hookValues = "false, 8080, '10.0.0.7', 'service-' || ((s * 7) % 100)";

/** A day of aggregates and two hours of raw rows: of the first services by hooks, of the second by spans. */
export async function fillRequests(
  store: ColonyStore,
  { agents, nowMs }: RequestWorld,
  { hooks, spans }: { hooks: Services; spans: Services },
): Promise<void> {
  const hours = (count: number): number => nowMs - count * 60 * minuteMs;
  const coarse = [
    ["1m", minuteMs, hours(6)],
    ["10m", 10 * minuteMs, hours(26)],
  ] as const;
  for (const [suffix, stepMs, fromMs] of coarse) {
    const meta = `1, ${timestamp(nowMs)}, moment`;
    await store.write(async (transaction) => {
      await transaction.run(
        `INSERT INTO rollup.red_${suffix} (source, ingest, stored_at, bucket, ${common}, ${hookKeys}, sample_count, last_seq, requests_sum, request_bytes_sum, response_bytes_sum, duration_us_sum, queue_us_sum, queue_samples_sum,
           duration_lo, duration_counts, queue_lo, queue_counts, first_byte_lo, first_byte_counts)
         SELECT source, ${meta}, ${commonValues}, ${hookValues}, 6, 0, n, n, n, us, us // 10, n, lo, d, 0, [], 0, [] FROM (${rowsSql(agents, stepMs, fromMs, nowMs, hooks)})`,
      );
      await transaction.run(
        `INSERT INTO rollup.span_red_${suffix} (source, ingest, stored_at, bucket, ${common}, version, sample_count, last_seq, spans_sum, requests_sum, duration_us_sum, duration_lo, duration_counts)
         SELECT source, ${meta}, ${commonValues}, '1.0', 6, 0, n, n, us, lo, d FROM (${rowsSql(agents, stepMs, fromMs, nowMs, spans)})`,
      );
    });
  }
  // The last minute is not rolled up yet.
  for (let hour = 2; hour > 0; hour--) {
    await store.write(async (transaction) => {
      const meta = `CASE WHEN moment > ${timestamp(nowMs - minuteMs)} THEN 2 ELSE 1 END, ${timestamp(nowMs)}, 0, moment, 0`;
      await transaction.run(
        `INSERT INTO raw.red (source, ingest, stored_at, seq, "time", mono_ms, ${common}, ${hookKeys}, window_ms, requests, request_bytes, response_bytes, duration_us, queue_us, queue_samples,
           duration_lo, duration_counts, queue_lo, queue_counts, first_byte_lo, first_byte_counts)
         SELECT source, ${meta}, ${commonValues}, ${hookValues}, 10000, n, n, n, us, us // 10, n, lo, d, 0, [], 0, [] FROM (${rowsSql(agents, 10_000, hours(hour), hours(hour - 1), hooks)})`,
      );
      await transaction.run(
        `INSERT INTO raw.span_red (source, ingest, stored_at, seq, "time", mono_ms, ${common}, version, window_ms, spans, requests, duration_us, duration_lo, duration_counts)
         SELECT source, ${meta}, ${commonValues}, '1.0', 10000, n, n, us, lo, d FROM (${rowsSql(agents, 10_000, hours(hour), hours(hour - 1), spans)})`,
      );
    });
  }
  await store.write((transaction) => transaction.run("UPDATE internal.rollup_progress SET ingest = 1"));
}

/** Everything but requests. */
export async function fillHosts(store: ColonyStore, { services, agents, nowMs }: RequestWorld): Promise<void> {
  const steps = (stepMs: number, hours: number): string =>
    `range(${Math.floor((hours * 60 * minuteMs) / stepMs)}) a(t), (SELECT ${timestamp(nowMs - hours * 60 * minuteMs)} + t * INTERVAL ${stepMs / 1_000} SECOND AS moment)`;
  await store.write(async (transaction) => {
    await transaction.run(
      `INSERT INTO internal.sources SELECT 1 + a, 'agent-' || a, 'epoch', ${timestamp(nowMs)}, ${timestamp(nowMs)}, '{}', '{}' FROM range(${agents}) r(a)`,
    );
    const columns = [
      "cpu_busy_ratio",
      "cpu_steal_ratio",
      "mem_total_bytes",
      "mem_available_bytes",
      "psi_cpu_some_ratio",
      "psi_io_some_ratio",
      "oom_kills",
    ];
    await transaction.run(
      `INSERT INTO raw.host (source, ingest, stored_at, seq, "time", mono_ms, ${columns.join(", ")})
       SELECT 1 + a, 1, moment, 0, moment, 0, 0.3, 0, 1000, 500, 0.01, 0.02, 0 FROM ${steps(15_000, 6)}, range(${agents}) r(a)`,
    );
    await transaction.run(
      `INSERT INTO raw.host_cgroup (source, ingest, stored_at, seq, "time", mono_ms, cgroup, cpu_cores, throttled_ratio, mem_used_bytes)
       SELECT 1 + s % ${agents}, 1, moment, 0, moment, 0, '/system.slice/service-' || s || '.service', 0.2, 0, 1000 FROM ${steps(15_000, 1)}, range(${services}) r(s)`,
    );
    await transaction.run(
      `INSERT INTO net.service_registry SELECT 'service-' || s, 'agent-' || s % ${agents}, 'tcp', 8080, 'listening_socket', NULL, 'systemd-unit', 0.85, 'discovered', false, false, true, 2, 1, 1,
         NULL, NULL, NULL, NULL, NULL, NULL, ${timestamp(0)}, ${timestamp(nowMs)}, ${timestamp(0)}, NULL FROM range(${services}) r(s)`,
    );
    await transaction.run(
      `INSERT INTO net.service_instances (agent_id, service, protocol, port, address, pid, start_ticks, netns, content, named_by, confidence, method, build, cgroup, managed, first_seen)
       SELECT 'agent-' || s % ${agents}, 'service-' || s, 'tcp', 8080, '0.0.0.0', s * 2 + i, 1, 1, 1, 'systemd-unit', 0.85, 'listening_socket', 'b', '/system.slice/service-' || s || '.service', false, ${timestamp(0)}
       FROM range(${services}) r(s), range(2) q(i)`,
    );
    await transaction.run(
      `INSERT INTO raw.log_pattern (source, ingest, stored_at, seq, "time", mono_ms, service, pattern, template, severity, records, is_new)
       SELECT 1 + s % ${agents}, 1, moment, 0, moment, 0, 'service-' || s, 'p' || p, 'a pattern of <num> words', CASE WHEN p = 0 THEN 'error' ELSE 'info' END, 3, false
       FROM ${steps(minuteMs, 2)}, range(${services}) r(s), range(5) q(p) WHERE hash(s, t, p) % 4 = 0`,
    );
    await transaction.run(
      `INSERT INTO registry.events SELECT ${timestamp(nowMs)} - e * INTERVAL 7 SECOND, 'egress-new', 'agent-1', 'Service calls something', json_object('service', 'service-' || e % ${services}) FROM range(20000) r(e)`,
    );
    await transaction.run(
      `INSERT INTO registry.deployments SELECT 'dep-' || e, 'service-' || e % ${services}, ${timestamp(nowMs)} - e * INTERVAL 7 MINUTE, ${timestamp(nowMs)}, 'build', 'b', 'a', NULL, NULL, '', NULL, '[]', 4, true, 'no-change', ${timestamp(nowMs)}, NULL, 'complete', '[]', NULL FROM range(500) r(e)`,
    );
  });
}
