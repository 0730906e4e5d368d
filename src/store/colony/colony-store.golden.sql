-- Tables of a colony's file, as the current build makes them. Released builds have files like this.
-- Tables of signals (schemas raw and rollup) may gain columns: add them to the signal's declaration.
-- Any other change needs a new migration in colony-schema.ts. Columns are never renamed, retyped or removed.
-- Then update this file: npx vitest run --project=unit colony-store.golden -u
-- DuckDB storage version: v1.0.0+

CREATE SCHEMA IF NOT EXISTS audit;
CREATE SCHEMA IF NOT EXISTS internal;
CREATE SCHEMA IF NOT EXISTS net;
CREATE SCHEMA IF NOT EXISTS raw;
CREATE SCHEMA IF NOT EXISTS registry;
CREATE SCHEMA IF NOT EXISTS rollup;
CREATE SCHEMA IF NOT EXISTS segment;
CREATE SCHEMA IF NOT EXISTS views;
CREATE SEQUENCE net.endpoint_ids;
CREATE SEQUENCE net.side_ids;

CREATE TABLE IF NOT EXISTS audit."chain" (
  "chain_id" VARCHAR,
  "entry" UBIGINT,
  "hash" VARCHAR
);

CREATE TABLE IF NOT EXISTS audit."entries" (
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

CREATE TABLE IF NOT EXISTS internal."gaps" (
  "noticed_at" TIMESTAMP NOT NULL,
  "agent_id" VARCHAR NOT NULL,
  "signal" VARCHAR NOT NULL,
  "epoch" VARCHAR NOT NULL,
  "reason" VARCHAR NOT NULL,
  "rows" UBIGINT,
  "first_seq" UBIGINT,
  "last_seq" UBIGINT
);

CREATE TABLE IF NOT EXISTS internal."kept" (
  "name" VARCHAR NOT NULL,
  "since" TIMESTAMP NOT NULL,
  PRIMARY KEY("name")
);

CREATE TABLE IF NOT EXISTS internal."rollup_progress" (
  "name" VARCHAR NOT NULL,
  "ingest" UBIGINT NOT NULL
);

CREATE TABLE IF NOT EXISTS internal."sources" (
  "source" UINTEGER NOT NULL,
  "agent_id" VARCHAR NOT NULL,
  "epoch" VARCHAR NOT NULL,
  "first_pull" TIMESTAMP NOT NULL,
  "last_pull" TIMESTAMP NOT NULL,
  "cursors" VARCHAR NOT NULL,
  "losses" VARCHAR NOT NULL
);

CREATE TABLE IF NOT EXISTS internal."unobserved" (
  "agent_id" VARCHAR NOT NULL,
  "since" TIMESTAMP NOT NULL,
  "until" TIMESTAMP NOT NULL,
  "reason" VARCHAR NOT NULL
);

CREATE TABLE IF NOT EXISTS main."schema_version" (
  "version" INTEGER NOT NULL,
  "applied_at" TIMESTAMP NOT NULL
);

CREATE TABLE IF NOT EXISTS net."agent_scans" (
  "agent_id" VARCHAR NOT NULL,
  "first_scan" TIMESTAMP NOT NULL,
  "second_scan" TIMESTAMP,
  "last_scan" TIMESTAMP,
  "prev_scan" TIMESTAMP,
  "scans" BIGINT NOT NULL,
  "last_ingest" UBIGINT NOT NULL,
  "prev_ingest" UBIGINT NOT NULL,
  "scanned_at" TIMESTAMP,
  "heard_at" TIMESTAMP NOT NULL,
  PRIMARY KEY(agent_id)
);

CREATE TABLE IF NOT EXISTS net."connection_sides" (
  "id" UBIGINT NOT NULL,
  "end_key" UBIGINT NOT NULL,
  "caller_key" UBIGINT NOT NULL,
  "view_id" UBIGINT NOT NULL,
  "agent_id" VARCHAR NOT NULL,
  "netns" BIGINT NOT NULL,
  "role" VARCHAR NOT NULL,
  "protocol" VARCHAR NOT NULL,
  "client_address" VARCHAR NOT NULL,
  "client_port" INTEGER NOT NULL,
  "server_address" VARCHAR NOT NULL,
  "server_port" INTEGER NOT NULL,
  "first_seen" TIMESTAMP NOT NULL,
  "service" VARCHAR NOT NULL,
  "pid" BIGINT,
  "start_ticks" BIGINT,
  "attribution" VARCHAR,
  "build" VARCHAR,
  "state" VARCHAR NOT NULL,
  "began" TIMESTAMP NOT NULL,
  "last_seen" TIMESTAMP NOT NULL,
  "connections" BIGINT NOT NULL,
  "bytes_sent" BIGINT,
  "bytes_received" BIGINT,
  "rtt_us" BIGINT,
  "retransmits" BIGINT,
  "arrived_at" TIMESTAMP NOT NULL,
  "updated_at" TIMESTAMP NOT NULL,
  "is_local" BOOLEAN NOT NULL,
  "learning" BOOLEAN NOT NULL,
  "pairing" VARCHAR NOT NULL,
  "peer_id" UBIGINT,
  "peer_agent" VARCHAR NOT NULL,
  "peer_service" VARCHAR NOT NULL,
  "edge_port" INTEGER NOT NULL,
  "pend_opened" BIGINT NOT NULL,
  "pend_closed" BIGINT NOT NULL,
  "pend_out" BIGINT NOT NULL,
  "pend_in" BIGINT NOT NULL,
  "pend_retransmits" BIGINT,
  "pend_rtt_sum" BIGINT NOT NULL,
  "pend_rtt_count" BIGINT NOT NULL,
  "pend_failures" BIGINT DEFAULT 0,
  "pend_refused" BIGINT DEFAULT 0,
  "pend_reset" BIGINT DEFAULT 0,
  "pend_timed_out" BIGINT DEFAULT 0
);

CREATE TABLE IF NOT EXISTS net."edge_totals" (
  "bucket" TIMESTAMP NOT NULL,
  "view_id" UBIGINT NOT NULL,
  "opened" BIGINT NOT NULL,
  "closed" BIGINT NOT NULL,
  "bytes_out" BIGINT NOT NULL,
  "bytes_in" BIGINT NOT NULL,
  "retransmits" BIGINT,
  "rtt_sum" BIGINT NOT NULL,
  "rtt_count" BIGINT NOT NULL,
  "first_seen" TIMESTAMP NOT NULL,
  "last_seen" TIMESTAMP NOT NULL,
  "failures" BIGINT DEFAULT 0,
  "refused" BIGINT DEFAULT 0,
  "reset" BIGINT DEFAULT 0,
  "timed_out" BIGINT DEFAULT 0
);

CREATE TABLE IF NOT EXISTS net."edge_views" (
  "view_id" UBIGINT NOT NULL,
  "agent_id" VARCHAR NOT NULL,
  "netns" BIGINT NOT NULL,
  "role" VARCHAR NOT NULL,
  "service" VARCHAR NOT NULL,
  "own_address" VARCHAR NOT NULL,
  "peer_address" VARCHAR NOT NULL,
  "protocol" VARCHAR NOT NULL,
  "server_port" INTEGER NOT NULL,
  "pairing" VARCHAR NOT NULL,
  "peer_agent" VARCHAR NOT NULL,
  "peer_service" VARCHAR NOT NULL
);

CREATE TABLE IF NOT EXISTS net."endpoint_resolution" (
  "ip_address" VARCHAR NOT NULL,
  "resolved_name" VARCHAR,
  "resolution_method" VARCHAR,
  "provider" VARCHAR,
  "product" VARCHAR,
  "region" VARCHAR,
  "confidence" DOUBLE NOT NULL,
  "resolved_at" TIMESTAMP NOT NULL,
  "expires_at" TIMESTAMP NOT NULL,
  PRIMARY KEY(ip_address)
);

CREATE TABLE IF NOT EXISTS net."merge_progress" (
  "name" VARCHAR NOT NULL,
  "until" TIMESTAMP NOT NULL,
  PRIMARY KEY("name")
);

CREATE TABLE IF NOT EXISTS net."naming_wishes" (
  "agent_id" VARCHAR NOT NULL,
  "reverse_dns" BOOLEAN NOT NULL,
  "provider_ranges" BOOLEAN NOT NULL,
  "max_cache_ms" BIGINT,
  PRIMARY KEY(agent_id)
);

CREATE TABLE IF NOT EXISTS net."network_endpoints" (
  "id" UBIGINT NOT NULL,
  "ip_address" VARCHAR NOT NULL,
  "port" INTEGER NOT NULL,
  "protocol" VARCHAR NOT NULL,
  "endpoint_type" VARCHAR NOT NULL,
  "first_seen" TIMESTAMP NOT NULL,
  "last_seen" TIMESTAMP NOT NULL,
  PRIMARY KEY(id),
  UNIQUE(ip_address, port, protocol, endpoint_type)
);

CREATE TABLE IF NOT EXISTS net."partial_progress" (
  "ingest" UBIGINT NOT NULL,
  "source" UINTEGER NOT NULL
);

CREATE TABLE IF NOT EXISTS net."service_addresses" (
  "agent_id" VARCHAR NOT NULL,
  "netns" BIGINT NOT NULL,
  "address" VARCHAR NOT NULL,
  "port" INTEGER NOT NULL,
  "protocol" VARCHAR NOT NULL,
  "service" VARCHAR NOT NULL,
  "learned_from" VARCHAR NOT NULL,
  "updated_at" TIMESTAMP NOT NULL
);

CREATE TABLE IF NOT EXISTS net."service_endpoints" (
  "service" VARCHAR NOT NULL,
  "agent_id" VARCHAR NOT NULL,
  "endpoint_id" UBIGINT NOT NULL,
  "service_port" INTEGER NOT NULL,
  "endpoint_type" VARCHAR NOT NULL,
  "connection_count" BIGINT NOT NULL,
  "first_seen" TIMESTAMP NOT NULL,
  "last_seen" TIMESTAMP NOT NULL,
  "updated_at" TIMESTAMP NOT NULL,
  "first_build" VARCHAR,
  UNIQUE(service, agent_id, endpoint_id, service_port)
);

CREATE TABLE IF NOT EXISTS net."service_instances" (
  "agent_id" VARCHAR NOT NULL,
  "service" VARCHAR NOT NULL,
  "protocol" VARCHAR NOT NULL,
  "port" INTEGER NOT NULL,
  "address" VARCHAR NOT NULL,
  "pid" BIGINT NOT NULL,
  "start_ticks" BIGINT NOT NULL,
  "netns" BIGINT NOT NULL,
  "content" UBIGINT NOT NULL,
  "named_by" VARCHAR NOT NULL,
  "confidence" DOUBLE NOT NULL,
  "method" VARCHAR NOT NULL,
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
  "addresses" VARCHAR,
  "managed" BOOLEAN NOT NULL,
  "health" VARCHAR,
  "health_detail" VARCHAR,
  "first_seen" TIMESTAMP NOT NULL,
  "name" VARCHAR,
  "origin" VARCHAR,
  "qualifiers" VARCHAR,
  "aliases" VARCHAR
);

CREATE TABLE IF NOT EXISTS net."service_names" (
  "text" VARCHAR NOT NULL,
  "service" VARCHAR NOT NULL,
  "label" VARCHAR NOT NULL
);

CREATE TABLE IF NOT EXISTS net."service_registry" (
  "service" VARCHAR NOT NULL,
  "agent_id" VARCHAR NOT NULL,
  "protocol" VARCHAR NOT NULL,
  "port" INTEGER NOT NULL,
  "method" VARCHAR NOT NULL,
  "previous_method" VARCHAR,
  "named_by" VARCHAR NOT NULL,
  "confidence" DOUBLE NOT NULL,
  "status" VARCHAR NOT NULL,
  "managed" BOOLEAN NOT NULL,
  "promoted" BOOLEAN NOT NULL,
  "present" BOOLEAN NOT NULL,
  "instances" BIGINT NOT NULL,
  "pid" BIGINT NOT NULL,
  "start_ticks" BIGINT NOT NULL,
  "exe" VARCHAR,
  "build" VARCHAR,
  "build_kind" VARCHAR,
  "command_line" VARCHAR,
  "health" VARCHAR,
  "health_detail" VARCHAR,
  "first_seen" TIMESTAMP NOT NULL,
  "last_seen" TIMESTAMP NOT NULL,
  "known_since" TIMESTAMP NOT NULL,
  "gone_since" TIMESTAMP,
  UNIQUE(service, agent_id, protocol, port)
);

CREATE TABLE IF NOT EXISTS net."services" (
  "service" VARCHAR NOT NULL,
  "name" VARCHAR NOT NULL,
  "named_by" VARCHAR NOT NULL,
  "confidence" DOUBLE NOT NULL,
  "origin" VARCHAR,
  "qualifiers" VARCHAR[] NOT NULL,
  "aliases" VARCHAR[] NOT NULL,
  "former_names" VARCHAR[] NOT NULL,
  "label" VARCHAR NOT NULL
);

CREATE TABLE IF NOT EXISTS raw."agent_event" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
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

CREATE TABLE IF NOT EXISTS raw."audit" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
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

CREATE TABLE IF NOT EXISTS raw."connection" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
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

CREATE TABLE IF NOT EXISTS raw."host" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
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

CREATE TABLE IF NOT EXISTS raw."host_cgroup" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
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

CREATE TABLE IF NOT EXISTS raw."host_cpu" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
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

CREATE TABLE IF NOT EXISTS raw."host_disk" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
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

CREATE TABLE IF NOT EXISTS raw."host_interface" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
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

CREATE TABLE IF NOT EXISTS raw."host_mount" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
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

CREATE TABLE IF NOT EXISTS raw."host_process" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
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

CREATE TABLE IF NOT EXISTS raw."log_pattern" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
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

CREATE TABLE IF NOT EXISTS raw."metric_loss" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
  "seq" UBIGINT,
  "time" TIMESTAMP,
  "mono_ms" DOUBLE,
  "service" VARCHAR,
  "loss" VARCHAR,
  "count" BIGINT,
  "window_ms" BIGINT
);

CREATE TABLE IF NOT EXISTS raw."metric_point" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
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

CREATE TABLE IF NOT EXISTS raw."metric_series" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
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

CREATE TABLE IF NOT EXISTS raw."profile" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
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

CREATE TABLE IF NOT EXISTS raw."profile_loss" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
  "seq" UBIGINT,
  "time" TIMESTAMP,
  "mono_ms" DOUBLE,
  "loss" VARCHAR,
  "count" BIGINT,
  "window_ms" BIGINT
);

CREATE TABLE IF NOT EXISTS raw."profile_stack" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
  "seq" UBIGINT,
  "time" TIMESTAMP,
  "mono_ms" DOUBLE,
  "stack" VARCHAR,
  "frames" VARCHAR,
  "is_whole" BOOLEAN
);

CREATE TABLE IF NOT EXISTS raw."red" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
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

CREATE TABLE IF NOT EXISTS raw."service_instance" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
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

CREATE TABLE IF NOT EXISTS raw."span_edge" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
  "seq" UBIGINT,
  "time" TIMESTAMP,
  "mono_ms" DOUBLE,
  "client" VARCHAR,
  "server" VARCHAR,
  "protocol" VARCHAR,
  "window_ms" BIGINT,
  "requests" DOUBLE,
  "errors" DOUBLE,
  "first_seen" TIMESTAMP,
  "last_seen" TIMESTAMP,
  "duration_lo" BIGINT,
  "duration_counts" UINTEGER[]
);

CREATE TABLE IF NOT EXISTS raw."span_red" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
  "seq" UBIGINT,
  "time" TIMESTAMP,
  "mono_ms" DOUBLE,
  "service" VARCHAR,
  "role" VARCHAR,
  "protocol" VARCHAR,
  "method" VARCHAR,
  "route" VARCHAR,
  "status" VARCHAR,
  "is_error" BOOLEAN,
  "version" VARCHAR,
  "window_ms" BIGINT,
  "spans" BIGINT,
  "requests" DOUBLE,
  "duration_us" DOUBLE,
  "duration_lo" BIGINT,
  "duration_counts" UINTEGER[]
);

CREATE TABLE IF NOT EXISTS raw."span_service" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
  "seq" UBIGINT,
  "time" TIMESTAMP,
  "mono_ms" DOUBLE,
  "service" VARCHAR,
  "role" VARCHAR,
  "protocol" VARCHAR,
  "is_error" BOOLEAN,
  "window_ms" BIGINT,
  "spans" BIGINT,
  "requests" DOUBLE,
  "duration_us" DOUBLE,
  "duration_lo" BIGINT,
  "duration_counts" UINTEGER[]
);

CREATE TABLE IF NOT EXISTS raw."traffic_loss" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
  "seq" UBIGINT,
  "time" TIMESTAMP,
  "mono_ms" DOUBLE,
  "loss" VARCHAR,
  "count" BIGINT,
  "window_ms" BIGINT,
  "service" VARCHAR,
  "detail" VARCHAR
);

CREATE TABLE IF NOT EXISTS registry."agent_conflicts" (
  "agent_id" VARCHAR NOT NULL,
  "host_a" VARCHAR NOT NULL,
  "host_b" VARCHAR NOT NULL,
  "noticed_at" TIMESTAMP NOT NULL
);

CREATE TABLE IF NOT EXISTS registry."agent_runtime" (
  "agent_id" VARCHAR NOT NULL,
  "runtime_type" VARCHAR NOT NULL,
  "sidecar_mode" VARCHAR,
  "platform_os" VARCHAR NOT NULL,
  "os_version" VARCHAR NOT NULL,
  "cri_type" VARCHAR,
  "cri_version" VARCHAR,
  "can_connect" BOOLEAN NOT NULL,
  "can_exec" BOOLEAN NOT NULL,
  "can_shell" BOOLEAN NOT NULL,
  "can_run" BOOLEAN NOT NULL,
  "detected_at" TIMESTAMP NOT NULL,
  "updated_at" TIMESTAMP NOT NULL,
  "problems" JSON NOT NULL,
  "context" JSON NOT NULL,
  PRIMARY KEY(agent_id)
);

CREATE TABLE IF NOT EXISTS registry."agent_runtime_history" (
  "agent_id" VARCHAR NOT NULL,
  "changed_at" TIMESTAMP NOT NULL,
  "runtime_type" VARCHAR NOT NULL,
  "sidecar_mode" VARCHAR,
  "cri_type" VARCHAR,
  "cri_version" VARCHAR,
  "can_connect" BOOLEAN NOT NULL,
  "can_exec" BOOLEAN NOT NULL,
  "can_shell" BOOLEAN NOT NULL,
  "can_run" BOOLEAN NOT NULL,
  "change_reason" VARCHAR NOT NULL,
  "changes" VARCHAR NOT NULL
);

CREATE TABLE IF NOT EXISTS registry."agents" (
  "agent_id" VARCHAR NOT NULL,
  "hostname" VARCHAR NOT NULL,
  "machine_id" VARCHAR NOT NULL,
  "boot_id" VARCHAR NOT NULL,
  "os" VARCHAR NOT NULL,
  "kernel" VARCHAR NOT NULL,
  "arch" VARCHAR NOT NULL,
  "version" VARCHAR NOT NULL,
  "protocol_version" INTEGER NOT NULL,
  "epoch" VARCHAR NOT NULL,
  "labels" JSON NOT NULL,
  "capabilities" JSON NOT NULL,
  "first_seen_at" TIMESTAMP NOT NULL,
  "last_seen_at" TIMESTAMP NOT NULL,
  "registered_at" TIMESTAMP NOT NULL,
  "revoked_at" TIMESTAMP,
  "pull_lag_ms" DOUBLE,
  PRIMARY KEY(agent_id)
);

CREATE TABLE IF NOT EXISTS registry."deployments" (
  "id" VARCHAR NOT NULL,
  "service" VARCHAR NOT NULL,
  "started_at" TIMESTAMP NOT NULL,
  "noticed_at" TIMESTAMP NOT NULL,
  "found_by" VARCHAR NOT NULL,
  "build" VARCHAR,
  "previous_build" VARCHAR,
  "version" VARCHAR,
  "previous_version" VARCHAR,
  "note" VARCHAR NOT NULL,
  "marked_by" VARCHAR,
  "places" JSON NOT NULL,
  "looks" INTEGER NOT NULL,
  "is_complete" BOOLEAN NOT NULL,
  "verdict" VARCHAR NOT NULL,
  "evaluated_at" TIMESTAMP,
  "report" JSON,
  "state" VARCHAR DEFAULT 'complete',
  "shares" JSON DEFAULT '[]',
  "ended_at" TIMESTAMP
);

CREATE TABLE IF NOT EXISTS registry."events" (
  "occurred_at" TIMESTAMP NOT NULL,
  "kind" VARCHAR NOT NULL,
  "agent_id" VARCHAR,
  "message" VARCHAR NOT NULL,
  "details" JSON NOT NULL
);

CREATE TABLE IF NOT EXISTS registry."incidents" (
  "number" UINTEGER NOT NULL,
  "state" VARCHAR NOT NULL,
  "started_at" TIMESTAMP NOT NULL,
  "opened_at" TIMESTAMP NOT NULL,
  "updated_at" TIMESTAMP NOT NULL,
  "ended_at" TIMESTAMP,
  "closed_at" TIMESTAMP,
  "service" VARCHAR NOT NULL,
  "cause" VARCHAR,
  "facts" JSON NOT NULL
);

CREATE TABLE IF NOT EXISTS registry."objectives" (
  "service" VARCHAR NOT NULL,
  "route" VARCHAR NOT NULL,
  "p95_us" DOUBLE,
  "error_ratio" DOUBLE,
  "set_by" VARCHAR NOT NULL,
  "set_at" TIMESTAMP NOT NULL
);

CREATE TABLE IF NOT EXISTS registry."service_builds" (
  "service" VARCHAR NOT NULL,
  "found_by" VARCHAR NOT NULL,
  "build" VARCHAR NOT NULL,
  "version" VARCHAR NOT NULL,
  "first_seen" TIMESTAMP NOT NULL,
  "last_seen" TIMESTAMP NOT NULL,
  "is_running" BOOLEAN NOT NULL,
  "places" JSON DEFAULT '[]'
);

CREATE TABLE IF NOT EXISTS registry."tokens" (
  "id" VARCHAR NOT NULL,
  "kind" VARCHAR NOT NULL,
  "secret_sha256" VARCHAR NOT NULL,
  "permission" VARCHAR NOT NULL,
  "created_at" TIMESTAMP NOT NULL,
  "expires_at" TIMESTAMP NOT NULL,
  "uses_left" INTEGER,
  "revoked_at" TIMESTAMP,
  "note" VARCHAR NOT NULL,
  PRIMARY KEY(id)
);

CREATE TABLE IF NOT EXISTS rollup."host_10m" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
  "bucket" TIMESTAMP,
  "sample_count" BIGINT,
  "last_seq" UBIGINT,
  "cpu_busy_ratio_sum" DOUBLE,
  "cpu_busy_ratio_count" BIGINT,
  "cpu_busy_ratio_max" DOUBLE,
  "cpu_iowait_ratio_sum" DOUBLE,
  "cpu_iowait_ratio_count" BIGINT,
  "cpu_iowait_ratio_max" DOUBLE,
  "cpu_steal_ratio_sum" DOUBLE,
  "cpu_steal_ratio_count" BIGINT,
  "cpu_steal_ratio_max" DOUBLE,
  "load_1m_sum" DOUBLE,
  "load_1m_count" BIGINT,
  "load_1m_max" DOUBLE,
  "mem_available_bytes_sum" HUGEINT,
  "mem_available_bytes_count" BIGINT,
  "mem_available_bytes_min" BIGINT,
  "mem_total_bytes_max" BIGINT,
  "swap_used_bytes_max" BIGINT,
  "oom_kills_sum" HUGEINT,
  "psi_cpu_some_ratio_sum" DOUBLE,
  "psi_cpu_some_ratio_count" BIGINT,
  "psi_cpu_some_ratio_max" DOUBLE,
  "psi_memory_some_ratio_sum" DOUBLE,
  "psi_memory_some_ratio_count" BIGINT,
  "psi_memory_some_ratio_max" DOUBLE,
  "psi_io_some_ratio_sum" DOUBLE,
  "psi_io_some_ratio_count" BIGINT,
  "psi_io_some_ratio_max" DOUBLE,
  "tcp_established_sum" HUGEINT,
  "tcp_established_count" BIGINT,
  "tcp_established_max" BIGINT,
  "tcp_retransmits_per_s_sum" DOUBLE,
  "tcp_retransmits_per_s_count" BIGINT,
  "tcp_retransmits_per_s_max" DOUBLE,
  "tcp_listen_overflows_sum" HUGEINT,
  "tcp_listen_drops_sum" HUGEINT
);

CREATE TABLE IF NOT EXISTS rollup."host_1m" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
  "bucket" TIMESTAMP,
  "sample_count" BIGINT,
  "last_seq" UBIGINT,
  "cpu_busy_ratio_sum" DOUBLE,
  "cpu_busy_ratio_count" BIGINT,
  "cpu_busy_ratio_max" DOUBLE,
  "cpu_iowait_ratio_sum" DOUBLE,
  "cpu_iowait_ratio_count" BIGINT,
  "cpu_iowait_ratio_max" DOUBLE,
  "cpu_steal_ratio_sum" DOUBLE,
  "cpu_steal_ratio_count" BIGINT,
  "cpu_steal_ratio_max" DOUBLE,
  "load_1m_sum" DOUBLE,
  "load_1m_count" BIGINT,
  "load_1m_max" DOUBLE,
  "mem_available_bytes_sum" HUGEINT,
  "mem_available_bytes_count" BIGINT,
  "mem_available_bytes_min" BIGINT,
  "mem_total_bytes_max" BIGINT,
  "swap_used_bytes_max" BIGINT,
  "oom_kills_sum" HUGEINT,
  "psi_cpu_some_ratio_sum" DOUBLE,
  "psi_cpu_some_ratio_count" BIGINT,
  "psi_cpu_some_ratio_max" DOUBLE,
  "psi_memory_some_ratio_sum" DOUBLE,
  "psi_memory_some_ratio_count" BIGINT,
  "psi_memory_some_ratio_max" DOUBLE,
  "psi_io_some_ratio_sum" DOUBLE,
  "psi_io_some_ratio_count" BIGINT,
  "psi_io_some_ratio_max" DOUBLE,
  "tcp_established_sum" HUGEINT,
  "tcp_established_count" BIGINT,
  "tcp_established_max" BIGINT,
  "tcp_retransmits_per_s_sum" DOUBLE,
  "tcp_retransmits_per_s_count" BIGINT,
  "tcp_retransmits_per_s_max" DOUBLE,
  "tcp_listen_overflows_sum" HUGEINT,
  "tcp_listen_drops_sum" HUGEINT
);

CREATE TABLE IF NOT EXISTS rollup."host_cgroup_10m" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
  "bucket" TIMESTAMP,
  "cgroup" VARCHAR,
  "sample_count" BIGINT,
  "last_seq" UBIGINT,
  "cpu_cores_sum" DOUBLE,
  "cpu_cores_count" BIGINT,
  "cpu_cores_max" DOUBLE,
  "throttled_ratio_sum" DOUBLE,
  "throttled_ratio_count" BIGINT,
  "throttled_ratio_max" DOUBLE,
  "mem_used_bytes_max" BIGINT,
  "mem_limit_bytes_last" BIGINT
);

CREATE TABLE IF NOT EXISTS rollup."host_cgroup_1m" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
  "bucket" TIMESTAMP,
  "cgroup" VARCHAR,
  "sample_count" BIGINT,
  "last_seq" UBIGINT,
  "cpu_cores_sum" DOUBLE,
  "cpu_cores_count" BIGINT,
  "cpu_cores_max" DOUBLE,
  "throttled_ratio_sum" DOUBLE,
  "throttled_ratio_count" BIGINT,
  "throttled_ratio_max" DOUBLE,
  "mem_used_bytes_max" BIGINT,
  "mem_limit_bytes_last" BIGINT
);

CREATE TABLE IF NOT EXISTS rollup."host_cpu_10m" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
  "bucket" TIMESTAMP,
  "core" BIGINT,
  "sample_count" BIGINT,
  "last_seq" UBIGINT,
  "busy_ratio_sum" DOUBLE,
  "busy_ratio_count" BIGINT,
  "busy_ratio_max" DOUBLE,
  "softirq_ratio_max" DOUBLE
);

CREATE TABLE IF NOT EXISTS rollup."host_cpu_1m" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
  "bucket" TIMESTAMP,
  "core" BIGINT,
  "sample_count" BIGINT,
  "last_seq" UBIGINT,
  "busy_ratio_sum" DOUBLE,
  "busy_ratio_count" BIGINT,
  "busy_ratio_max" DOUBLE,
  "softirq_ratio_max" DOUBLE
);

CREATE TABLE IF NOT EXISTS rollup."host_disk_10m" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
  "bucket" TIMESTAMP,
  "device" VARCHAR,
  "sample_count" BIGINT,
  "last_seq" UBIGINT,
  "read_bytes_per_s_sum" DOUBLE,
  "read_bytes_per_s_count" BIGINT,
  "read_bytes_per_s_max" DOUBLE,
  "write_bytes_per_s_sum" DOUBLE,
  "write_bytes_per_s_count" BIGINT,
  "write_bytes_per_s_max" DOUBLE,
  "read_latency_ms_max" DOUBLE,
  "write_latency_ms_max" DOUBLE,
  "busy_ratio_sum" DOUBLE,
  "busy_ratio_count" BIGINT,
  "busy_ratio_max" DOUBLE
);

CREATE TABLE IF NOT EXISTS rollup."host_disk_1m" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
  "bucket" TIMESTAMP,
  "device" VARCHAR,
  "sample_count" BIGINT,
  "last_seq" UBIGINT,
  "read_bytes_per_s_sum" DOUBLE,
  "read_bytes_per_s_count" BIGINT,
  "read_bytes_per_s_max" DOUBLE,
  "write_bytes_per_s_sum" DOUBLE,
  "write_bytes_per_s_count" BIGINT,
  "write_bytes_per_s_max" DOUBLE,
  "read_latency_ms_max" DOUBLE,
  "write_latency_ms_max" DOUBLE,
  "busy_ratio_sum" DOUBLE,
  "busy_ratio_count" BIGINT,
  "busy_ratio_max" DOUBLE
);

CREATE TABLE IF NOT EXISTS rollup."host_interface_10m" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
  "bucket" TIMESTAMP,
  "interface" VARCHAR,
  "sample_count" BIGINT,
  "last_seq" UBIGINT,
  "rx_bytes_per_s_sum" DOUBLE,
  "rx_bytes_per_s_count" BIGINT,
  "rx_bytes_per_s_max" DOUBLE,
  "tx_bytes_per_s_sum" DOUBLE,
  "tx_bytes_per_s_count" BIGINT,
  "tx_bytes_per_s_max" DOUBLE,
  "rx_errors_sum" HUGEINT,
  "tx_errors_sum" HUGEINT,
  "rx_drops_sum" HUGEINT,
  "tx_drops_sum" HUGEINT
);

CREATE TABLE IF NOT EXISTS rollup."host_interface_1m" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
  "bucket" TIMESTAMP,
  "interface" VARCHAR,
  "sample_count" BIGINT,
  "last_seq" UBIGINT,
  "rx_bytes_per_s_sum" DOUBLE,
  "rx_bytes_per_s_count" BIGINT,
  "rx_bytes_per_s_max" DOUBLE,
  "tx_bytes_per_s_sum" DOUBLE,
  "tx_bytes_per_s_count" BIGINT,
  "tx_bytes_per_s_max" DOUBLE,
  "rx_errors_sum" HUGEINT,
  "tx_errors_sum" HUGEINT,
  "rx_drops_sum" HUGEINT,
  "tx_drops_sum" HUGEINT
);

CREATE TABLE IF NOT EXISTS rollup."host_mount_10m" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
  "bucket" TIMESTAMP,
  "mount" VARCHAR,
  "sample_count" BIGINT,
  "last_seq" UBIGINT,
  "size_bytes_last" BIGINT,
  "used_bytes_last" BIGINT,
  "used_bytes_max" BIGINT,
  "available_bytes_min" BIGINT,
  "inodes_used_max" BIGINT
);

CREATE TABLE IF NOT EXISTS rollup."host_mount_1m" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
  "bucket" TIMESTAMP,
  "mount" VARCHAR,
  "sample_count" BIGINT,
  "last_seq" UBIGINT,
  "size_bytes_last" BIGINT,
  "used_bytes_last" BIGINT,
  "used_bytes_max" BIGINT,
  "available_bytes_min" BIGINT,
  "inodes_used_max" BIGINT
);

CREATE TABLE IF NOT EXISTS rollup."metric_point_10m" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
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

CREATE TABLE IF NOT EXISTS rollup."metric_point_1m" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
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

CREATE TABLE IF NOT EXISTS rollup."red_10m" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
  "bucket" TIMESTAMP,
  "service" VARCHAR,
  "role" VARCHAR,
  "protocol" VARCHAR,
  "is_tls" BOOLEAN,
  "server_port" BIGINT,
  "peer" VARCHAR,
  "peer_address" VARCHAR,
  "method" VARCHAR,
  "route" VARCHAR,
  "status" VARCHAR,
  "is_error" BOOLEAN,
  "sample_count" BIGINT,
  "last_seq" UBIGINT,
  "requests_sum" HUGEINT,
  "request_bytes_sum" HUGEINT,
  "response_bytes_sum" HUGEINT,
  "duration_us_sum" HUGEINT,
  "queue_us_sum" HUGEINT,
  "queue_samples_sum" HUGEINT,
  "duration_lo" BIGINT,
  "duration_counts" UBIGINT[],
  "queue_lo" BIGINT,
  "queue_counts" UBIGINT[],
  "first_byte_lo" BIGINT,
  "first_byte_counts" UBIGINT[]
);

CREATE TABLE IF NOT EXISTS rollup."red_1m" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
  "bucket" TIMESTAMP,
  "service" VARCHAR,
  "role" VARCHAR,
  "protocol" VARCHAR,
  "is_tls" BOOLEAN,
  "server_port" BIGINT,
  "peer" VARCHAR,
  "peer_address" VARCHAR,
  "method" VARCHAR,
  "route" VARCHAR,
  "status" VARCHAR,
  "is_error" BOOLEAN,
  "sample_count" BIGINT,
  "last_seq" UBIGINT,
  "requests_sum" HUGEINT,
  "request_bytes_sum" HUGEINT,
  "response_bytes_sum" HUGEINT,
  "duration_us_sum" HUGEINT,
  "queue_us_sum" HUGEINT,
  "queue_samples_sum" HUGEINT,
  "duration_lo" BIGINT,
  "duration_counts" UBIGINT[],
  "queue_lo" BIGINT,
  "queue_counts" UBIGINT[],
  "first_byte_lo" BIGINT,
  "first_byte_counts" UBIGINT[]
);

CREATE TABLE IF NOT EXISTS rollup."span_edge_10m" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
  "bucket" TIMESTAMP,
  "client" VARCHAR,
  "server" VARCHAR,
  "protocol" VARCHAR,
  "sample_count" BIGINT,
  "last_seq" UBIGINT,
  "requests_sum" DOUBLE,
  "errors_sum" DOUBLE,
  "first_seen_min" TIMESTAMP,
  "last_seen_max" TIMESTAMP,
  "duration_lo" BIGINT,
  "duration_counts" UBIGINT[]
);

CREATE TABLE IF NOT EXISTS rollup."span_edge_1m" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
  "bucket" TIMESTAMP,
  "client" VARCHAR,
  "server" VARCHAR,
  "protocol" VARCHAR,
  "sample_count" BIGINT,
  "last_seq" UBIGINT,
  "requests_sum" DOUBLE,
  "errors_sum" DOUBLE,
  "first_seen_min" TIMESTAMP,
  "last_seen_max" TIMESTAMP,
  "duration_lo" BIGINT,
  "duration_counts" UBIGINT[]
);

CREATE TABLE IF NOT EXISTS rollup."span_red_10m" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
  "bucket" TIMESTAMP,
  "service" VARCHAR,
  "role" VARCHAR,
  "protocol" VARCHAR,
  "method" VARCHAR,
  "route" VARCHAR,
  "status" VARCHAR,
  "is_error" BOOLEAN,
  "version" VARCHAR,
  "sample_count" BIGINT,
  "last_seq" UBIGINT,
  "spans_sum" HUGEINT,
  "requests_sum" DOUBLE,
  "duration_us_sum" DOUBLE,
  "duration_lo" BIGINT,
  "duration_counts" UBIGINT[]
);

CREATE TABLE IF NOT EXISTS rollup."span_red_1m" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
  "bucket" TIMESTAMP,
  "service" VARCHAR,
  "role" VARCHAR,
  "protocol" VARCHAR,
  "method" VARCHAR,
  "route" VARCHAR,
  "status" VARCHAR,
  "is_error" BOOLEAN,
  "version" VARCHAR,
  "sample_count" BIGINT,
  "last_seq" UBIGINT,
  "spans_sum" HUGEINT,
  "requests_sum" DOUBLE,
  "duration_us_sum" DOUBLE,
  "duration_lo" BIGINT,
  "duration_counts" UBIGINT[]
);

CREATE TABLE IF NOT EXISTS rollup."span_service_10m" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
  "bucket" TIMESTAMP,
  "service" VARCHAR,
  "role" VARCHAR,
  "protocol" VARCHAR,
  "is_error" BOOLEAN,
  "sample_count" BIGINT,
  "last_seq" UBIGINT,
  "spans_sum" HUGEINT,
  "requests_sum" DOUBLE,
  "duration_us_sum" DOUBLE,
  "duration_lo" BIGINT,
  "duration_counts" UBIGINT[]
);

CREATE TABLE IF NOT EXISTS rollup."span_service_1m" (
  "source" UINTEGER,
  "ingest" UBIGINT,
  "stored_at" TIMESTAMP,
  "bucket" TIMESTAMP,
  "service" VARCHAR,
  "role" VARCHAR,
  "protocol" VARCHAR,
  "is_error" BOOLEAN,
  "sample_count" BIGINT,
  "last_seq" UBIGINT,
  "spans_sum" HUGEINT,
  "requests_sum" DOUBLE,
  "duration_us_sum" DOUBLE,
  "duration_lo" BIGINT,
  "duration_counts" UBIGINT[]
);

CREATE TABLE IF NOT EXISTS segment."derived" (
  "product" VARCHAR NOT NULL,
  "epoch" VARCHAR NOT NULL,
  "number" UBIGINT NOT NULL,
  PRIMARY KEY(product, epoch)
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

CREATE TABLE IF NOT EXISTS segment."span_processes" (
  "source" UINTEGER NOT NULL,
  "service" VARCHAR NOT NULL,
  "resource" VARCHAR,
  "seen" TIMESTAMP,
  PRIMARY KEY("source", service)
);

CREATE TABLE IF NOT EXISTS segment."waiting_calls" (
  "source" UINTEGER,
  "trace_id" UUID,
  "span_id" UBIGINT,
  "parent_span_id" UBIGINT,
  "service" VARCHAR,
  "protocol" VARCHAR,
  "kind" VARCHAR,
  "time" TIMESTAMP,
  "duration_ns" BIGINT,
  "is_error" BOOLEAN,
  "weight" DOUBLE,
  "since" TIMESTAMP
);
CREATE INDEX agent_runtime_type ON registry.agent_runtime(runtime_type, sidecar_mode);
