/** Spare capacity of hosts in both periods (CPU, memory, disks, retransmits), and the programs that used it. */

import type { DiagnosisTimesRequest, DiskFact, HostFact, LimitFact, ProcessShareFact, SpreadPair } from "../../../model/diagnosis.ts";
import { numberIn, numberOrNullIn, type Queryable, type QueryRow, textIn } from "../../tables/queryable.ts";
import { rangesSql } from "./ranges-sql.ts";
import { spreadIn, spreadSql } from "./spread-sql.ts";

const hostsMax = 1_000;
const disksMax = 2_000;
const limitsMax = 2_000;
/** Programs per host, those with the most CPU first. */
const programsMax = 5;

export interface HostEvidence {
  hosts: HostFact[];
  limits: LimitFact[];
}

export async function queryDiagnosisHosts(store: Queryable, times: DiagnosisTimesRequest): Promise<HostEvidence> {
  const [hosts, disks, programs, limits] = await Promise.all([
    queryHosts(store, times),
    queryDisks(store, times),
    queryPrograms(store, times),
    queryLimits(store, times),
  ]);
  return {
    hosts: hosts.map((host) => ({
      ...host,
      disks: disks.filter(({ agentId }) => agentId === host.agentId).map(({ fact }) => fact),
      programs: programs.filter(({ agentId }) => agentId === host.agentId).map(({ fact }) => fact),
    })),
    limits,
  };
}

const sides = ({ before, after }: DiagnosisTimesRequest): { isAfter: string; inTime: string } => ({
  isAfter: rangesSql('"time"', [after]),
  inTime: rangesSql('"time"', [...before, after]),
});

const pairSql = (value: string, name: string): string =>
  `${spreadSql(value, "NOT is_after")} AS ${name}_before, ${spreadSql(value, "is_after")} AS ${name}_after`;

const pairIn = (row: QueryRow, name: string): SpreadPair => ({
  before: spreadIn(row, `${name}_before`),
  after: spreadIn(row, `${name}_after`),
});

async function queryHosts(store: Queryable, times: DiagnosisTimesRequest): Promise<HostFact[]> {
  const { isAfter, inTime } = sides(times);
  const rows = await store.query(
    `SELECT agent_id, any_value(a.hostname) AS hostname, max(cpu_count) AS cores,
       ${pairSql("cpu_busy_ratio", "busy")}, ${pairSql("cpu_steal_ratio", "steal")}, ${pairSql("coalesce(psi_cpu_some_ratio, 0)", "cpu_wait")},
       ${pairSql("coalesce(psi_io_some_ratio, 0)", "io_wait")}, ${pairSql("coalesce(psi_memory_some_ratio, 0)", "memory_wait")},
       ${pairSql("tcp_retransmits_per_s / greatest(1, tcp_out_segments_per_s)", "retransmits")},
       (SELECT list(DISTINCT i.service) FROM net.service_instances i WHERE i.agent_id = h.agent_id) AS services
     FROM (SELECT *, ${isAfter} AS is_after FROM host WHERE ${inTime}) h LEFT JOIN registry.agents a USING (agent_id)
     GROUP BY agent_id ORDER BY agent_id LIMIT ${hostsMax}`,
  );
  return rows.map((row) => ({
    agentId: textIn(row, "agent_id"),
    hostname: textIn(row, "hostname"),
    cores: numberIn(row, "cores"),
    busy: pairIn(row, "busy"),
    steal: pairIn(row, "steal"),
    cpuWait: pairIn(row, "cpu_wait"),
    ioWait: pairIn(row, "io_wait"),
    memoryWait: pairIn(row, "memory_wait"),
    retransmits: pairIn(row, "retransmits"),
    services: Array.isArray(row["services"]) ? row["services"].map(String) : [],
    disks: [],
    programs: [],
  }));
}

async function queryDisks(store: Queryable, times: DiagnosisTimesRequest): Promise<{ agentId: string; fact: DiskFact }[]> {
  const { isAfter, inTime } = sides(times);
  const rows = await store.query(
    `SELECT agent_id, device, ${pairSql("write_latency_ms", "latency")}, ${pairSql("busy_ratio", "busy")}
     FROM (SELECT *, ${isAfter} AS is_after FROM host_disk WHERE ${inTime}) GROUP BY agent_id, device
     HAVING count(*) FILTER (is_after) > 0 ORDER BY agent_id, device LIMIT ${disksMax}`,
  );
  return rows.map((row) => ({
    agentId: textIn(row, "agent_id"),
    fact: { device: textIn(row, "device"), latencyMs: pairIn(row, "latency"), busy: pairIn(row, "busy") },
  }));
}

/** CPU cores used by all processes of one name, averaged over the samples of each period. */
async function queryPrograms(store: Queryable, times: DiagnosisTimesRequest): Promise<{ agentId: string; fact: ProcessShareFact }[]> {
  const { isAfter, inTime } = sides(times);
  const rows = await store.query(
    `WITH seen AS (SELECT *, ${isAfter} AS is_after FROM host_process WHERE ${inTime}),
     samples AS (SELECT agent_id, is_after, count(DISTINCT "time") AS samples FROM seen GROUP BY ALL)
     SELECT agent_id, name, coalesce(max(i.service), '') AS service, count(DISTINCT pid) FILTER (is_after) AS processes,
       coalesce(sum(cpu_cores / samples) FILTER (is_after), 0) AS cores_after, coalesce(sum(cpu_cores / samples) FILTER (NOT is_after), 0) AS cores_before
     FROM seen JOIN samples USING (agent_id, is_after)
     LEFT JOIN (SELECT DISTINCT agent_id, pid, start_ticks, service FROM net.service_instances WHERE pid > 0) i USING (agent_id, pid, start_ticks)
     GROUP BY agent_id, name, i.service QUALIFY row_number() OVER (PARTITION BY agent_id ORDER BY cores_after - cores_before DESC, name) <= ${programsMax}
     ORDER BY agent_id, cores_after - cores_before DESC`,
  );
  return rows.map((row) => ({
    agentId: textIn(row, "agent_id"),
    fact: {
      name: textIn(row, "name"),
      service: textIn(row, "service"),
      processes: numberIn(row, "processes"),
      coresBefore: numberIn(row, "cores_before"),
      coresAfter: numberIn(row, "cores_after"),
    },
  }));
}

/** Only control groups that contain a single service. */
async function queryLimits(store: Queryable, times: DiagnosisTimesRequest): Promise<LimitFact[]> {
  const { isAfter, inTime } = sides(times);
  const rows = await store.query(
    `WITH grouped AS (
       SELECT DISTINCT agent_id, cgroup, service FROM net.service_instances WHERE cgroup IS NOT NULL AND cgroup <> '/'
       QUALIFY count(DISTINCT service) OVER (PARTITION BY agent_id, cgroup) = 1
     )
     SELECT service, max(cpu_limit_cores) FILTER (is_after) AS cores, ${pairSql("throttled_ratio", "throttled")},
       coalesce(sum(oom_kills) FILTER (is_after), 0) AS oom_kills, coalesce(max(mem_used_bytes) FILTER (is_after), 0) AS used,
       coalesce(median(mem_used_bytes) FILTER (NOT is_after), 0) AS used_before, max(mem_limit_bytes) FILTER (is_after) AS memory
     FROM (SELECT *, ${isAfter} AS is_after FROM host_cgroup WHERE ${inTime}) JOIN grouped USING (agent_id, cgroup)
     GROUP BY service HAVING max(cpu_limit_cores) IS NOT NULL OR max(mem_limit_bytes) IS NOT NULL OR sum(oom_kills) > 0 ORDER BY service LIMIT ${limitsMax}`,
  );
  return rows.map((row) => ({
    service: textIn(row, "service"),
    cpuCores: numberOrNullIn(row, "cores"),
    throttled: pairIn(row, "throttled"),
    oomKills: numberIn(row, "oom_kills"),
    memoryUsed: numberIn(row, "used"),
    memoryUsedBefore: numberIn(row, "used_before"),
    memoryLimit: numberOrNullIn(row, "memory"),
  }));
}
