-- Tables of an agent's file, as the current build makes them. Released builds have files like this.
-- Tables of signals (schema main) may gain columns: add them to the signal's declaration.
-- Any other change needs a new migration in agent-store.ts. Columns are never renamed, retyped or removed.
-- Then update this file: npx vitest run --project=unit agent-store.golden -u
-- DuckDB storage version: v1.0.0+

CREATE SCHEMA IF NOT EXISTS internal;
CREATE SCHEMA IF NOT EXISTS segment;

CREATE TABLE IF NOT EXISTS internal."heads" (
  "signal" VARCHAR NOT NULL,
  "least_next_seq" UBIGINT NOT NULL
);

CREATE TABLE IF NOT EXISTS internal."losses" (
  "signal" VARCHAR NOT NULL,
  "reason" VARCHAR NOT NULL,
  "rows" UBIGINT NOT NULL
);

CREATE TABLE IF NOT EXISTS internal."meta" (
  "key" VARCHAR NOT NULL,
  "value" VARCHAR NOT NULL
);

CREATE TABLE IF NOT EXISTS main."agent_event" (
  "seq" UBIGINT,
  "time" TIMESTAMP,
  "mono_ms" DOUBLE,
  "kind" VARCHAR,
  "severity" VARCHAR,
  "service" VARCHAR,
  "pid" BIGINT,
  "message" VARCHAR,
  "details" VARCHAR
);

CREATE TABLE IF NOT EXISTS main."audit" (
  "seq" UBIGINT,
  "time" TIMESTAMP,
  "mono_ms" DOUBLE,
  "entry" BIGINT,
  "prev_hash" VARCHAR,
  "hash" VARCHAR,
  "kind" VARCHAR,
  "phase" VARCHAR,
  "command_id" VARCHAR,
  "caller" VARCHAR,
  "caller_from" VARCHAR,
  "through" VARCHAR,
  "question_id" VARCHAR,
  "target" VARCHAR,
  "place" VARCHAR,
  "command" VARCHAR,
  "rule" VARCHAR,
  "run_as" VARCHAR,
  "reason" VARCHAR,
  "exit_code" BIGINT,
  "stdout_bytes" BIGINT,
  "stderr_bytes" BIGINT,
  "duration_ms" BIGINT,
  "recording" VARCHAR,
  "details" VARCHAR
);

CREATE TABLE IF NOT EXISTS main."connection" (
  "seq" UBIGINT,
  "time" TIMESTAMP,
  "mono_ms" DOUBLE,
  "role" VARCHAR,
  "service" VARCHAR,
  "pid" BIGINT,
  "start_ticks" BIGINT,
  "netns" BIGINT,
  "attribution" VARCHAR,
  "protocol" VARCHAR,
  "client_address" VARCHAR,
  "client_port" BIGINT,
  "server_address" VARCHAR,
  "server_port" BIGINT,
  "state" VARCHAR,
  "first_seen" TIMESTAMP,
  "last_seen" TIMESTAMP,
  "connections" BIGINT,
  "bytes_sent" BIGINT,
  "bytes_received" BIGINT,
  "rtt_us" BIGINT,
  "retransmits" BIGINT,
  "refused" BIGINT,
  "reset" BIGINT,
  "timed_out" BIGINT
);

CREATE TABLE IF NOT EXISTS main."host" (
  "seq" UBIGINT,
  "time" TIMESTAMP,
  "mono_ms" DOUBLE,
  "interval_ms" BIGINT,
  "cpu_count" BIGINT,
  "cpu_busy_ratio" DOUBLE,
  "cpu_user_ratio" DOUBLE,
  "cpu_system_ratio" DOUBLE,
  "cpu_iowait_ratio" DOUBLE,
  "cpu_steal_ratio" DOUBLE,
  "load_1m" DOUBLE,
  "load_5m" DOUBLE,
  "load_15m" DOUBLE,
  "processes_running" BIGINT,
  "processes_blocked" BIGINT,
  "processes_total" BIGINT,
  "context_switches_per_s" DOUBLE,
  "forks_per_s" DOUBLE,
  "mem_total_bytes" BIGINT,
  "mem_available_bytes" BIGINT,
  "mem_cached_bytes" BIGINT,
  "mem_dirty_bytes" BIGINT,
  "swap_total_bytes" BIGINT,
  "swap_used_bytes" BIGINT,
  "swap_in_per_s" DOUBLE,
  "swap_out_per_s" DOUBLE,
  "oom_kills" BIGINT,
  "psi_cpu_some_ratio" DOUBLE,
  "psi_memory_some_ratio" DOUBLE,
  "psi_memory_full_ratio" DOUBLE,
  "psi_io_some_ratio" DOUBLE,
  "psi_io_full_ratio" DOUBLE,
  "tcp_established" BIGINT,
  "tcp_out_segments_per_s" DOUBLE,
  "tcp_retransmits_per_s" DOUBLE,
  "tcp_listen_overflows" BIGINT,
  "tcp_listen_drops" BIGINT,
  "tcp_resets_sent_per_s" DOUBLE,
  "tcp_attempt_fails_per_s" DOUBLE,
  "uptime_s" BIGINT
);

CREATE TABLE IF NOT EXISTS main."host_cgroup" (
  "seq" UBIGINT,
  "time" TIMESTAMP,
  "mono_ms" DOUBLE,
  "cgroup" VARCHAR,
  "cpu_cores" DOUBLE,
  "cpu_limit_cores" DOUBLE,
  "throttled_ratio" DOUBLE,
  "mem_used_bytes" BIGINT,
  "mem_limit_bytes" BIGINT,
  "oom_kills" BIGINT,
  "pids" BIGINT
);

CREATE TABLE IF NOT EXISTS main."host_cpu" (
  "seq" UBIGINT,
  "time" TIMESTAMP,
  "mono_ms" DOUBLE,
  "core" BIGINT,
  "busy_ratio" DOUBLE,
  "user_ratio" DOUBLE,
  "system_ratio" DOUBLE,
  "iowait_ratio" DOUBLE,
  "steal_ratio" DOUBLE,
  "softirq_ratio" DOUBLE
);

CREATE TABLE IF NOT EXISTS main."host_disk" (
  "seq" UBIGINT,
  "time" TIMESTAMP,
  "mono_ms" DOUBLE,
  "device" VARCHAR,
  "read_bytes_per_s" DOUBLE,
  "write_bytes_per_s" DOUBLE,
  "reads_per_s" DOUBLE,
  "writes_per_s" DOUBLE,
  "read_latency_ms" DOUBLE,
  "write_latency_ms" DOUBLE,
  "busy_ratio" DOUBLE,
  "queue_length" DOUBLE
);

CREATE TABLE IF NOT EXISTS main."host_interface" (
  "seq" UBIGINT,
  "time" TIMESTAMP,
  "mono_ms" DOUBLE,
  "interface" VARCHAR,
  "rx_bytes_per_s" DOUBLE,
  "tx_bytes_per_s" DOUBLE,
  "rx_packets_per_s" DOUBLE,
  "tx_packets_per_s" DOUBLE,
  "rx_errors" BIGINT,
  "tx_errors" BIGINT,
  "rx_drops" BIGINT,
  "tx_drops" BIGINT
);

CREATE TABLE IF NOT EXISTS main."host_mount" (
  "seq" UBIGINT,
  "time" TIMESTAMP,
  "mono_ms" DOUBLE,
  "mount" VARCHAR,
  "device" VARCHAR,
  "fs_type" VARCHAR,
  "size_bytes" BIGINT,
  "used_bytes" BIGINT,
  "available_bytes" BIGINT,
  "inodes_total" BIGINT,
  "inodes_used" BIGINT,
  "read_only" BOOLEAN
);

CREATE TABLE IF NOT EXISTS main."host_process" (
  "seq" UBIGINT,
  "time" TIMESTAMP,
  "mono_ms" DOUBLE,
  "pid" BIGINT,
  "start_ticks" BIGINT,
  "name" VARCHAR,
  "exe" VARCHAR,
  "user_id" BIGINT,
  "cgroup" VARCHAR,
  "state" VARCHAR,
  "cpu_cores" DOUBLE,
  "rss_bytes" BIGINT,
  "threads" BIGINT,
  "open_files" BIGINT,
  "major_faults_per_s" DOUBLE
);

CREATE TABLE IF NOT EXISTS main."log_pattern" (
  "seq" UBIGINT,
  "time" TIMESTAMP,
  "mono_ms" DOUBLE,
  "service" VARCHAR,
  "pattern" VARCHAR,
  "template" VARCHAR,
  "severity" VARCHAR,
  "records" BIGINT,
  "is_new" BOOLEAN,
  "example" VARCHAR
);

CREATE TABLE IF NOT EXISTS main."metric_loss" (
  "seq" UBIGINT,
  "time" TIMESTAMP,
  "mono_ms" DOUBLE,
  "service" VARCHAR,
  "loss" VARCHAR,
  "count" BIGINT,
  "window_ms" BIGINT
);

CREATE TABLE IF NOT EXISTS main."metric_point" (
  "seq" UBIGINT,
  "time" TIMESTAMP,
  "mono_ms" DOUBLE,
  "service" VARCHAR,
  "name" VARCHAR,
  "unit" VARCHAR,
  "kind" VARCHAR,
  "temporality" VARCHAR,
  "is_monotonic" BOOLEAN,
  "attributes" VARCHAR,
  "series" VARCHAR,
  "service_version" VARCHAR,
  "service_instance" VARCHAR,
  "start_time" TIMESTAMP,
  "value" DOUBLE,
  "special" VARCHAR,
  "count" BIGINT,
  "sum" DOUBLE,
  "min" DOUBLE,
  "max" DOUBLE,
  "bounds" VARCHAR,
  "counts" VARCHAR,
  "scale" BIGINT,
  "zero_count" BIGINT,
  "zero_threshold" DOUBLE,
  "positive_offset" BIGINT,
  "positive_counts" VARCHAR,
  "negative_offset" BIGINT,
  "negative_counts" VARCHAR,
  "quantiles" VARCHAR
);

CREATE TABLE IF NOT EXISTS main."metric_series" (
  "seq" UBIGINT,
  "time" TIMESTAMP,
  "mono_ms" DOUBLE,
  "series" VARCHAR,
  "service" VARCHAR,
  "name" VARCHAR,
  "description" VARCHAR,
  "attributes" VARCHAR,
  "environment" VARCHAR,
  "host_name" VARCHAR,
  "resource" VARCHAR,
  "scope_name" VARCHAR,
  "scope_version" VARCHAR
);

CREATE TABLE IF NOT EXISTS main."profile" (
  "seq" UBIGINT,
  "time" TIMESTAMP,
  "mono_ms" DOUBLE,
  "service" VARCHAR,
  "pid" BIGINT,
  "start_ticks" BIGINT,
  "thread" VARCHAR,
  "build" VARCHAR,
  "stack" VARCHAR,
  "samples" BIGINT,
  "cpu_us" BIGINT,
  "window_ms" BIGINT
);

CREATE TABLE IF NOT EXISTS main."profile_loss" (
  "seq" UBIGINT,
  "time" TIMESTAMP,
  "mono_ms" DOUBLE,
  "loss" VARCHAR,
  "count" BIGINT,
  "window_ms" BIGINT
);

CREATE TABLE IF NOT EXISTS main."profile_stack" (
  "seq" UBIGINT,
  "time" TIMESTAMP,
  "mono_ms" DOUBLE,
  "stack" VARCHAR,
  "frames" VARCHAR,
  "is_whole" BOOLEAN
);

CREATE TABLE IF NOT EXISTS main."red" (
  "seq" UBIGINT,
  "time" TIMESTAMP,
  "mono_ms" DOUBLE,
  "service" VARCHAR,
  "role" VARCHAR,
  "protocol" VARCHAR,
  "is_tls" BOOLEAN,
  "server_port" BIGINT,
  "peer_address" VARCHAR,
  "peer" VARCHAR,
  "method" VARCHAR,
  "route" VARCHAR,
  "status" VARCHAR,
  "is_error" BOOLEAN,
  "window_ms" BIGINT,
  "requests" BIGINT,
  "request_bytes" BIGINT,
  "response_bytes" BIGINT,
  "duration_us" BIGINT,
  "queue_us" BIGINT,
  "queue_samples" BIGINT,
  "duration_lo" BIGINT,
  "duration_counts" UINTEGER[],
  "queue_lo" BIGINT,
  "queue_counts" UINTEGER[],
  "first_byte_lo" BIGINT,
  "first_byte_counts" UINTEGER[]
);

CREATE TABLE IF NOT EXISTS main."schema_version" (
  "version" INTEGER NOT NULL,
  "applied_at" TIMESTAMP NOT NULL
);

CREATE TABLE IF NOT EXISTS main."service_instance" (
  "seq" UBIGINT,
  "time" TIMESTAMP,
  "mono_ms" DOUBLE,
  "service" VARCHAR,
  "name" VARCHAR,
  "origin" VARCHAR,
  "qualifiers" VARCHAR,
  "aliases" VARCHAR,
  "named_by" VARCHAR,
  "confidence" DOUBLE,
  "method" VARCHAR,
  "protocol" VARCHAR,
  "address" VARCHAR,
  "port" BIGINT,
  "pid" BIGINT,
  "start_ticks" BIGINT,
  "started" TIMESTAMP,
  "exe" VARCHAR,
  "build" VARCHAR,
  "build_kind" VARCHAR,
  "command_line" VARCHAR,
  "environment" VARCHAR,
  "user_id" BIGINT,
  "user_name" VARCHAR,
  "cgroup" VARCHAR,
  "container_id" VARCHAR,
  "container_name" VARCHAR,
  "unit" VARCHAR,
  "netns" BIGINT,
  "addresses" VARCHAR,
  "managed" BOOLEAN,
  "health" VARCHAR,
  "health_detail" VARCHAR
);

CREATE TABLE IF NOT EXISTS main."traffic_loss" (
  "seq" UBIGINT,
  "time" TIMESTAMP,
  "mono_ms" DOUBLE,
  "loss" VARCHAR,
  "count" BIGINT,
  "window_ms" BIGINT,
  "service" VARCHAR,
  "detail" VARCHAR
);

CREATE TABLE IF NOT EXISTS segment."heads" (
  "agent_id" VARCHAR NOT NULL,
  "epoch" VARCHAR NOT NULL,
  "signal" VARCHAR NOT NULL,
  "number" UBIGINT NOT NULL,
  "rows" UBIGINT NOT NULL,
  "known" UBIGINT NOT NULL,
  "updated_at" BIGINT NOT NULL,
  PRIMARY KEY(epoch, signal)
);

CREATE TABLE IF NOT EXISTS segment."manifest" (
  "agent_id" VARCHAR NOT NULL,
  "epoch" VARCHAR NOT NULL,
  "signal" VARCHAR NOT NULL,
  "first_number" UBIGINT NOT NULL,
  "number" UBIGINT NOT NULL,
  "rows_before" UBIGINT NOT NULL,
  "rows" UBIGINT NOT NULL,
  "bytes" UBIGINT NOT NULL,
  "min_time" BIGINT NOT NULL,
  "max_time" BIGINT NOT NULL,
  "services" VARCHAR,
  "lookup_filter" BLOB,
  "schema_version" INTEGER NOT NULL,
  "sha256" VARCHAR NOT NULL,
  "stored_at" BIGINT NOT NULL,
  "state" VARCHAR NOT NULL,
  PRIMARY KEY(epoch, signal, number)
);
