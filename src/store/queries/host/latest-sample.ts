/**
 * SQL for the rows of each agent's newest sample of a signal. Newest is by sequence, which survives a clock that was set back; between
 * epochs, whose sequences do not compare, by the time of their last row. All rows of one sample carry the same `time`.
 *
 * `filter` is a condition on the signal's own columns and should bound `time`, so that only recent row groups are read.
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
