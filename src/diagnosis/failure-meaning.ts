/** The cause behind the status of a failed statement, where the status alone identifies it. */

import type { CauseKind } from "./suspicion.ts";

export interface FailureMeaning {
  kind: CauseKind;
  text: string;
}

const lockTimeout = { kind: "lock-wait", text: "a lock was not granted in time, another transaction holds it" } as const;
const deadlock = { kind: "lock-wait", text: "transactions wait for each other's locks" } as const;
const tooMany = { kind: "connections-full", text: "all connections are taken" } as const;
const tooLong = { kind: "slow-statement", text: "it was ended at a time limit" } as const;
const noMemory = { kind: "out-of-memory", text: "its memory is used up" } as const;

/** Keys are SQLSTATE of PostgreSQL, error numbers of MySQL and MariaDB, first words of Redis errors. */
const meanings: Readonly<Record<string, Readonly<Record<string, FailureMeaning>>>> = {
  postgres: { "55P03": lockTimeout, "40P01": deadlock, "53300": tooMany, "57014": tooLong, "53200": noMemory },
  mysql: { "1205": lockTimeout, "1213": deadlock, "1040": tooMany, "1203": tooMany, "3024": tooLong, "1969": tooLong },
  redis: { OOM: noMemory },
};

export function failureMeaning(protocol: string, status: string): FailureMeaning | null {
  return meanings[protocol]?.[status] ?? null;
}
