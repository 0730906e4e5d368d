/** Kafka's APIs by number: their names, and the parts of their layouts that are needed to find topics and errors. */

interface KafkaApi {
  name: string;
  /** First version with compact strings and tagged fields; 32767 if there is none. */
  flexibleFrom: number;
  /** Highest version accepted by recognition: the protocol's, plus a margin for newer ones. */
  maxVersion: number;
  /** First version whose response starts with a throttle time and the error. `isFirstBefore`: responses of earlier versions start with the error. */
  error?: { afterThrottleFrom: number; isFirstBefore: boolean; until?: number };
}

const never = 32_767;
const always = { afterThrottleFrom: never, isFirstBefore: true };

/** The index is the API number. */
const apis: readonly KafkaApi[] = [
  { name: "Produce", flexibleFrom: 9, maxVersion: 16 },
  { name: "Fetch", flexibleFrom: 12, maxVersion: 22, error: { afterThrottleFrom: 7, isFirstBefore: false } },
  { name: "ListOffsets", flexibleFrom: 6, maxVersion: 14 },
  { name: "Metadata", flexibleFrom: 9, maxVersion: 16 },
  { name: "LeaderAndIsr", flexibleFrom: 4, maxVersion: 10, error: always },
  { name: "StopReplica", flexibleFrom: 2, maxVersion: 8, error: always },
  { name: "UpdateMetadata", flexibleFrom: 6, maxVersion: 12, error: always },
  { name: "ControlledShutdown", flexibleFrom: 3, maxVersion: 6, error: always },
  { name: "OffsetCommit", flexibleFrom: 8, maxVersion: 14 },
  { name: "OffsetFetch", flexibleFrom: 6, maxVersion: 14 },
  { name: "FindCoordinator", flexibleFrom: 3, maxVersion: 10, error: { afterThrottleFrom: 1, isFirstBefore: true, until: 3 } },
  { name: "JoinGroup", flexibleFrom: 6, maxVersion: 13, error: { afterThrottleFrom: 2, isFirstBefore: true } },
  { name: "Heartbeat", flexibleFrom: 4, maxVersion: 8, error: { afterThrottleFrom: 1, isFirstBefore: true } },
  { name: "LeaveGroup", flexibleFrom: 4, maxVersion: 9, error: { afterThrottleFrom: 1, isFirstBefore: true } },
  { name: "SyncGroup", flexibleFrom: 4, maxVersion: 9, error: { afterThrottleFrom: 1, isFirstBefore: true } },
  { name: "DescribeGroups", flexibleFrom: 5, maxVersion: 10 },
  { name: "ListGroups", flexibleFrom: 3, maxVersion: 9, error: { afterThrottleFrom: 1, isFirstBefore: true } },
  { name: "SaslHandshake", flexibleFrom: never, maxVersion: 4, error: always },
  { name: "ApiVersions", flexibleFrom: 3, maxVersion: 8, error: always },
  { name: "CreateTopics", flexibleFrom: 5, maxVersion: 11 },
  { name: "DeleteTopics", flexibleFrom: 4, maxVersion: 10 },
  { name: "DeleteRecords", flexibleFrom: 2, maxVersion: 6 },
  { name: "InitProducerId", flexibleFrom: 2, maxVersion: 9, error: { afterThrottleFrom: 0, isFirstBefore: false } },
  { name: "OffsetForLeaderEpoch", flexibleFrom: 4, maxVersion: 8 },
  { name: "AddPartitionsToTxn", flexibleFrom: 3, maxVersion: 9, error: { afterThrottleFrom: 4, isFirstBefore: false } },
  { name: "AddOffsetsToTxn", flexibleFrom: 3, maxVersion: 8, error: { afterThrottleFrom: 0, isFirstBefore: false } },
  { name: "EndTxn", flexibleFrom: 3, maxVersion: 9, error: { afterThrottleFrom: 0, isFirstBefore: false } },
  { name: "WriteTxnMarkers", flexibleFrom: 1, maxVersion: 5 },
  { name: "TxnOffsetCommit", flexibleFrom: 3, maxVersion: 9 },
  { name: "DescribeAcls", flexibleFrom: 2, maxVersion: 7, error: { afterThrottleFrom: 0, isFirstBefore: false } },
  { name: "CreateAcls", flexibleFrom: 2, maxVersion: 7 },
  { name: "DeleteAcls", flexibleFrom: 2, maxVersion: 7 },
  { name: "DescribeConfigs", flexibleFrom: 4, maxVersion: 8 },
  { name: "AlterConfigs", flexibleFrom: 2, maxVersion: 6 },
  { name: "AlterReplicaLogDirs", flexibleFrom: 2, maxVersion: 6 },
  { name: "DescribeLogDirs", flexibleFrom: 2, maxVersion: 8 },
  { name: "SaslAuthenticate", flexibleFrom: 2, maxVersion: 6, error: always },
  { name: "CreatePartitions", flexibleFrom: 2, maxVersion: 7 },
  { name: "CreateDelegationToken", flexibleFrom: 2, maxVersion: 7, error: always },
  { name: "RenewDelegationToken", flexibleFrom: 2, maxVersion: 6, error: always },
  { name: "ExpireDelegationToken", flexibleFrom: 2, maxVersion: 6, error: always },
  { name: "DescribeDelegationToken", flexibleFrom: 2, maxVersion: 7, error: always },
  { name: "DeleteGroups", flexibleFrom: 2, maxVersion: 6 },
  { name: "ElectLeaders", flexibleFrom: 2, maxVersion: 6, error: { afterThrottleFrom: 1, isFirstBefore: false } },
  { name: "IncrementalAlterConfigs", flexibleFrom: 1, maxVersion: 5 },
  { name: "AlterPartitionReassignments", flexibleFrom: 0, maxVersion: 5, error: { afterThrottleFrom: 0, isFirstBefore: false } },
  { name: "ListPartitionReassignments", flexibleFrom: 0, maxVersion: 4, error: { afterThrottleFrom: 0, isFirstBefore: false } },
  { name: "OffsetDelete", flexibleFrom: never, maxVersion: 4, error: always },
];
/** Later APIs, between brokers and of new group protocols: by number only. */
export const maxKafkaApi = 95;
const consumerGroupHeartbeat = 68;
const unnamed: KafkaApi = { name: "", flexibleFrom: 0, maxVersion: 8 };
const heartbeat: KafkaApi = {
  name: "ConsumerGroupHeartbeat",
  flexibleFrom: 0,
  maxVersion: 5,
  error: { afterThrottleFrom: 0, isFirstBefore: false },
};

/** Null for an unknown API or version. */
export function kafkaApi(key: number, version: number): KafkaApi | null {
  if (key < 0 || key > maxKafkaApi) return null;
  const api = key === consumerGroupHeartbeat ? heartbeat : (apis[key] ?? unnamed);
  return version >= 0 && version <= api.maxVersion ? api : null;
}

/** Offset of the error in the response, after its header; -1 without one. */
export function kafkaErrorOffset(api: KafkaApi, version: number): number {
  if (api.error === undefined || version > (api.error.until ?? never)) return -1;
  if (version >= api.error.afterThrottleFrom) return 4;
  return api.error.isFirstBefore ? 0 : -1;
}
