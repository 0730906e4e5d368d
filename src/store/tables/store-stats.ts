export interface PruneResult {
  /** By signal, or by table where a signal has several. Entries without removed rows are left out. */
  prunedRows: Record<string, number>;
  usedBytes: number;
}

export interface StoreStats {
  fileBytes: number;
  usedBytes: number;
  walBytes: number;
  /** By signal. */
  rows: Record<string, number>;
}
