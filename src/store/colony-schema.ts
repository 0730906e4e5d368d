import type { Migration } from "./migrations.ts";

/**
 * Schemas of a colony's file: `raw` and `rollup` hold signals and are made from their declarations, `internal` what pulling needs,
 * `registry` agents, tokens and events, `views` what people's SQL may read.
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
];
