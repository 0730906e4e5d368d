import type { Migration } from "../engine/migrations.ts";

/**
 * Schemas of a colony's file: `raw` and `rollup` hold signals and are created from their declarations. `internal` is for pulling,
 * `registry` for agents, tokens and events, `net` for services and connections, `views` for the views that users' SQL may read.
 */
export const colonyMigrations: readonly Migration[] = [
  {
    version: 1,
    sql: `
      CREATE SCHEMA internal;
      CREATE SCHEMA raw;
      CREATE SCHEMA rollup;
      CREATE SCHEMA registry;
      CREATE SCHEMA views;
      CREATE TABLE internal.sources (
        source UINTEGER NOT NULL, agent_id VARCHAR NOT NULL, epoch VARCHAR NOT NULL,
        first_pull TIMESTAMP NOT NULL, last_pull TIMESTAMP NOT NULL, cursors VARCHAR NOT NULL, losses VARCHAR NOT NULL
      );
      CREATE TABLE internal.gaps (
        noticed_at TIMESTAMP NOT NULL, agent_id VARCHAR NOT NULL, signal VARCHAR NOT NULL, epoch VARCHAR NOT NULL, reason VARCHAR NOT NULL,
        rows UBIGINT, first_seq UBIGINT, last_seq UBIGINT
      );
      CREATE TABLE internal.rollup_progress (name VARCHAR NOT NULL, ingest UBIGINT NOT NULL);
      CREATE TABLE registry.agents (
        agent_id VARCHAR PRIMARY KEY, hostname VARCHAR NOT NULL, machine_id VARCHAR NOT NULL, boot_id VARCHAR NOT NULL,
        os VARCHAR NOT NULL, kernel VARCHAR NOT NULL, arch VARCHAR NOT NULL, version VARCHAR NOT NULL, protocol_version INTEGER NOT NULL,
        epoch VARCHAR NOT NULL, labels JSON NOT NULL, capabilities JSON NOT NULL,
        first_seen_at TIMESTAMP NOT NULL, last_seen_at TIMESTAMP NOT NULL, registered_at TIMESTAMP NOT NULL,
        revoked_at TIMESTAMP, pull_lag_ms DOUBLE
      );
      CREATE TABLE registry.agent_conflicts (
        agent_id VARCHAR NOT NULL, host_a VARCHAR NOT NULL, host_b VARCHAR NOT NULL, noticed_at TIMESTAMP NOT NULL
      );
      CREATE TABLE registry.tokens (
        id VARCHAR PRIMARY KEY, kind VARCHAR NOT NULL, secret_sha256 VARCHAR NOT NULL, permission VARCHAR NOT NULL,
        created_at TIMESTAMP NOT NULL, expires_at TIMESTAMP NOT NULL, uses_left INTEGER, revoked_at TIMESTAMP, note VARCHAR NOT NULL
      );
      CREATE TABLE registry.events (
        occurred_at TIMESTAMP NOT NULL, kind VARCHAR NOT NULL, agent_id VARCHAR, message VARCHAR NOT NULL, details JSON NOT NULL
      );
    `,
  },
  {
    version: 2,
    sql: `
      CREATE SCHEMA net;
      CREATE SEQUENCE net.side_ids;
      CREATE SEQUENCE net.endpoint_ids;
      -- A discovery step may end between the agents of one stored pull.
      CREATE TABLE net.partial_progress (ingest UBIGINT NOT NULL, source UINTEGER NOT NULL);
      -- Scans of each agent; times are by its own clock, stored_at by the colony's.
      CREATE TABLE net.agent_scans (
        agent_id VARCHAR PRIMARY KEY, first_scan TIMESTAMP NOT NULL, second_scan TIMESTAMP, last_scan TIMESTAMP, prev_scan TIMESTAMP,
        scans BIGINT NOT NULL, last_ingest UBIGINT NOT NULL, prev_ingest UBIGINT NOT NULL, scanned_at TIMESTAMP, heard_at TIMESTAMP NOT NULL
      );
      -- Instances of the last two scans of each agent.
      CREATE TABLE net.service_instances (
        agent_id VARCHAR NOT NULL, service VARCHAR NOT NULL, protocol VARCHAR NOT NULL, port INTEGER NOT NULL, address VARCHAR NOT NULL,
        pid BIGINT NOT NULL, start_ticks BIGINT NOT NULL, netns BIGINT NOT NULL, content UBIGINT NOT NULL,
        named_by VARCHAR NOT NULL, confidence DOUBLE NOT NULL, method VARCHAR NOT NULL, started TIMESTAMP, exe VARCHAR, build VARCHAR,
        build_kind VARCHAR, command_line VARCHAR, environment VARCHAR, user_id BIGINT, user_name VARCHAR, cgroup VARCHAR,
        container_id VARCHAR, container_name VARCHAR, unit VARCHAR, addresses VARCHAR, managed BOOLEAN NOT NULL, health VARCHAR,
        health_detail VARCHAR, first_seen TIMESTAMP NOT NULL
      );
      CREATE TABLE net.service_registry (
        service VARCHAR NOT NULL, agent_id VARCHAR NOT NULL, protocol VARCHAR NOT NULL, port INTEGER NOT NULL,
        method VARCHAR NOT NULL, previous_method VARCHAR, named_by VARCHAR NOT NULL, confidence DOUBLE NOT NULL,
        status VARCHAR NOT NULL, managed BOOLEAN NOT NULL, promoted BOOLEAN NOT NULL, present BOOLEAN NOT NULL,
        instances BIGINT NOT NULL, pid BIGINT NOT NULL, start_ticks BIGINT NOT NULL, exe VARCHAR, build VARCHAR, build_kind VARCHAR,
        command_line VARCHAR, health VARCHAR, health_detail VARCHAR,
        first_seen TIMESTAMP NOT NULL, last_seen TIMESTAMP NOT NULL, known_since TIMESTAMP NOT NULL, gone_since TIMESTAMP,
        UNIQUE (service, agent_id, protocol, port)
      );
      CREATE TABLE net.service_addresses (
        agent_id VARCHAR NOT NULL, netns BIGINT NOT NULL, address VARCHAR NOT NULL, port INTEGER NOT NULL, protocol VARCHAR NOT NULL,
        service VARCHAR NOT NULL, learned_from VARCHAR NOT NULL, updated_at TIMESTAMP NOT NULL
      );
      -- end_key hashes agent to server_port, caller_key protocol and client: joins over eight texts take too much memory.
      CREATE TABLE net.connection_sides (
        id UBIGINT NOT NULL, end_key UBIGINT NOT NULL, caller_key UBIGINT NOT NULL, view_id UBIGINT NOT NULL,
        agent_id VARCHAR NOT NULL, netns BIGINT NOT NULL, role VARCHAR NOT NULL, protocol VARCHAR NOT NULL,
        client_address VARCHAR NOT NULL, client_port INTEGER NOT NULL, server_address VARCHAR NOT NULL, server_port INTEGER NOT NULL,
        first_seen TIMESTAMP NOT NULL,
        service VARCHAR NOT NULL, pid BIGINT, start_ticks BIGINT, attribution VARCHAR, build VARCHAR,
        state VARCHAR NOT NULL, began TIMESTAMP NOT NULL, last_seen TIMESTAMP NOT NULL, connections BIGINT NOT NULL,
        bytes_sent BIGINT, bytes_received BIGINT, rtt_us BIGINT, retransmits BIGINT,
        arrived_at TIMESTAMP NOT NULL, updated_at TIMESTAMP NOT NULL, is_local BOOLEAN NOT NULL, learning BOOLEAN NOT NULL,
        pairing VARCHAR NOT NULL, peer_id UBIGINT, peer_agent VARCHAR NOT NULL, peer_service VARCHAR NOT NULL, edge_port INTEGER NOT NULL,
        pend_opened BIGINT NOT NULL, pend_closed BIGINT NOT NULL, pend_out BIGINT NOT NULL, pend_in BIGINT NOT NULL,
        pend_retransmits BIGINT, pend_rtt_sum BIGINT NOT NULL, pend_rtt_count BIGINT NOT NULL
      );
      -- One end's view of an edge; its id is a hash of the other columns.
      CREATE TABLE net.edge_views (
        view_id UBIGINT NOT NULL, agent_id VARCHAR NOT NULL, netns BIGINT NOT NULL, role VARCHAR NOT NULL, service VARCHAR NOT NULL,
        own_address VARCHAR NOT NULL, peer_address VARCHAR NOT NULL, protocol VARCHAR NOT NULL, server_port INTEGER NOT NULL,
        pairing VARCHAR NOT NULL, peer_agent VARCHAR NOT NULL, peer_service VARCHAR NOT NULL
      );
      -- Partials: a view may have several rows in a bucket until they are merged.
      CREATE TABLE net.edge_totals (
        bucket TIMESTAMP NOT NULL, view_id UBIGINT NOT NULL,
        opened BIGINT NOT NULL, closed BIGINT NOT NULL, bytes_out BIGINT NOT NULL, bytes_in BIGINT NOT NULL, retransmits BIGINT,
        rtt_sum BIGINT NOT NULL, rtt_count BIGINT NOT NULL, first_seen TIMESTAMP NOT NULL, last_seen TIMESTAMP NOT NULL
      );
      -- Totals before \`until\` are merged to the named interval.
      CREATE TABLE net.merge_progress (name VARCHAR PRIMARY KEY, until TIMESTAMP NOT NULL);
      CREATE TABLE net.network_endpoints (
        id UBIGINT PRIMARY KEY, ip_address VARCHAR NOT NULL, port INTEGER NOT NULL, protocol VARCHAR NOT NULL, endpoint_type VARCHAR NOT NULL,
        first_seen TIMESTAMP NOT NULL, last_seen TIMESTAMP NOT NULL, UNIQUE (ip_address, port, protocol, endpoint_type)
      );
      CREATE TABLE net.service_endpoints (
        service VARCHAR NOT NULL, agent_id VARCHAR NOT NULL, endpoint_id UBIGINT NOT NULL, service_port INTEGER NOT NULL,
        endpoint_type VARCHAR NOT NULL, connection_count BIGINT NOT NULL, first_seen TIMESTAMP NOT NULL, last_seen TIMESTAMP NOT NULL,
        updated_at TIMESTAMP NOT NULL, first_build VARCHAR, UNIQUE (service, agent_id, endpoint_id, service_port)
      );
      CREATE TABLE net.endpoint_resolution (
        ip_address VARCHAR PRIMARY KEY, resolved_name VARCHAR, resolution_method VARCHAR, provider VARCHAR, product VARCHAR, region VARCHAR,
        confidence DOUBLE NOT NULL, resolved_at TIMESTAMP NOT NULL, expires_at TIMESTAMP NOT NULL
      );
    `,
  },
  {
    version: 3,
    sql: `
      -- Failed attempts and cut connections; the other columns count known causes.
      ALTER TABLE net.connection_sides ADD COLUMN pend_failures BIGINT DEFAULT 0;
      ALTER TABLE net.connection_sides ADD COLUMN pend_refused BIGINT DEFAULT 0;
      ALTER TABLE net.connection_sides ADD COLUMN pend_reset BIGINT DEFAULT 0;
      ALTER TABLE net.connection_sides ADD COLUMN pend_timed_out BIGINT DEFAULT 0;
      ALTER TABLE net.edge_totals ADD COLUMN failures BIGINT DEFAULT 0;
      ALTER TABLE net.edge_totals ADD COLUMN refused BIGINT DEFAULT 0;
      ALTER TABLE net.edge_totals ADD COLUMN reset BIGINT DEFAULT 0;
      ALTER TABLE net.edge_totals ADD COLUMN timed_out BIGINT DEFAULT 0;
      -- Agents' limits on resolving addresses that they see; no row means no limits.
      CREATE TABLE net.naming_wishes (
        agent_id VARCHAR PRIMARY KEY, reverse_dns BOOLEAN NOT NULL, provider_ranges BOOLEAN NOT NULL, max_cache_ms BIGINT
      );
    `,
  },
  {
    version: 4,
    sql: `
      -- Builds of services. A build that no longer runs stays, so that its return is detected.
      CREATE TABLE registry.service_builds (
        service VARCHAR NOT NULL, found_by VARCHAR NOT NULL, build VARCHAR NOT NULL, version VARCHAR NOT NULL,
        first_seen TIMESTAMP NOT NULL, last_seen TIMESTAMP NOT NULL, is_running BOOLEAN NOT NULL
      );
      -- places: which agents it reached and when, [{agentId, atUs}]; looks: how often it was compared with the time before.
      CREATE TABLE registry.deployments (
        id VARCHAR NOT NULL, service VARCHAR NOT NULL, started_at TIMESTAMP NOT NULL, noticed_at TIMESTAMP NOT NULL, found_by VARCHAR NOT NULL,
        build VARCHAR, previous_build VARCHAR, version VARCHAR, previous_version VARCHAR, note VARCHAR NOT NULL, marked_by VARCHAR,
        places JSON NOT NULL, looks INTEGER NOT NULL, is_complete BOOLEAN NOT NULL, verdict VARCHAR NOT NULL, evaluated_at TIMESTAMP, report JSON
      );
    `,
  },
  {
    version: 5,
    sql: `
      -- Where agents run and what they can do there; agents that do not report it have no row. context: the whole report.
      CREATE TABLE registry.agent_runtime (
        agent_id VARCHAR PRIMARY KEY, runtime_type VARCHAR NOT NULL, sidecar_mode VARCHAR, platform_os VARCHAR NOT NULL, os_version VARCHAR NOT NULL,
        cri_type VARCHAR, cri_version VARCHAR, can_connect BOOLEAN NOT NULL, can_exec BOOLEAN NOT NULL, can_shell BOOLEAN NOT NULL,
        can_run BOOLEAN NOT NULL, detected_at TIMESTAMP NOT NULL, updated_at TIMESTAMP NOT NULL, problems JSON NOT NULL, context JSON NOT NULL
      );
      CREATE INDEX agent_runtime_type ON registry.agent_runtime (runtime_type, sidecar_mode);
      CREATE TABLE registry.agent_runtime_history (
        agent_id VARCHAR NOT NULL, changed_at TIMESTAMP NOT NULL, runtime_type VARCHAR NOT NULL, sidecar_mode VARCHAR, cri_type VARCHAR,
        cri_version VARCHAR, can_connect BOOLEAN NOT NULL, can_exec BOOLEAN NOT NULL, can_shell BOOLEAN NOT NULL, can_run BOOLEAN NOT NULL,
        change_reason VARCHAR NOT NULL, changes VARCHAR NOT NULL
      );
    `,
  },
  {
    version: 6,
    sql: `
      -- Services by id, with the best name and others. former_names: names that telemetry rows may still have; aliases: names that users may type.
      CREATE TABLE net.services (
        service VARCHAR NOT NULL, name VARCHAR NOT NULL, named_by VARCHAR NOT NULL, confidence DOUBLE NOT NULL, origin VARCHAR,
        qualifiers VARCHAR[] NOT NULL, aliases VARCHAR[] NOT NULL, former_names VARCHAR[] NOT NULL, label VARCHAR NOT NULL
      );
      -- Every text that resolves to one service: its id, and its own names in telemetry.
      CREATE TABLE net.service_names (text VARCHAR NOT NULL, service VARCHAR NOT NULL, label VARCHAR NOT NULL);
      ALTER TABLE net.service_instances ADD COLUMN name VARCHAR;
      ALTER TABLE net.service_instances ADD COLUMN origin VARCHAR;
      ALTER TABLE net.service_instances ADD COLUMN qualifiers VARCHAR;
      ALTER TABLE net.service_instances ADD COLUMN aliases VARCHAR;
    `,
  },
  {
    version: 7,
    sql: `
      -- places: agents that run a build, [{agentId, startedMs, lastMs, instances}] by the agents' clocks.
      ALTER TABLE registry.service_builds ADD COLUMN places JSON DEFAULT '[]';
      -- state: rolling, complete, rolled-back, variant; shares: builds side by side; ended_at: when the old build, or one rolled back, was gone.
      ALTER TABLE registry.deployments ADD COLUMN state VARCHAR DEFAULT 'complete';
      ALTER TABLE registry.deployments ADD COLUMN shares JSON DEFAULT '[]';
      ALTER TABLE registry.deployments ADD COLUMN ended_at TIMESTAMP;
    `,
  },
  {
    version: 8,
    sql: `
      -- facts: symptoms, cause, evidence and timeline. service: the entry service that names the incident; cause: the service at fault.
      CREATE TABLE registry.incidents (
        number UINTEGER NOT NULL, state VARCHAR NOT NULL, started_at TIMESTAMP NOT NULL, opened_at TIMESTAMP NOT NULL, updated_at TIMESTAMP NOT NULL,
        ended_at TIMESTAMP, closed_at TIMESTAMP, service VARCHAR NOT NULL, cause VARCHAR, facts JSON NOT NULL
      );
      -- Objectives declared with coral slo; an empty route means all requests of the service.
      CREATE TABLE registry.objectives (
        service VARCHAR NOT NULL, route VARCHAR NOT NULL, p95_us DOUBLE, error_ratio DOUBLE, set_by VARCHAR NOT NULL, set_at TIMESTAMP NOT NULL
      );
    `,
  },
];
