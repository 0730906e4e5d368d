/**
 * SQL for the rows of each agent's newest sample of a signal. Newest means the highest sequence, which is correct even after a clock was
 * set back. Sequences of different epochs are not comparable; there the epoch with the latest row wins. All rows of one sample have the
 * same `time`. `filter` is a condition on the signal's columns and should bound `time`, so that only recent row groups are read.
 */
export function latestSampleSql(signal: string, filter: string, columns = "*"): string {
  return `
    WITH newest AS (
      SELECT agent_id, epoch, arg_max(time, seq) AS time
      FROM ${signal}
      WHERE ${filter}
      GROUP BY agent_id, epoch
      QUALIFY row_number() OVER (PARTITION BY agent_id ORDER BY arg_max(time, seq) DESC) = 1
    )
    SELECT ${columns}
    FROM ${signal} JOIN newest USING (agent_id, epoch, time)
    WHERE ${filter}`;
}
