/** How fast an agent's answers come, over the last pulls that carried rows. */
export interface AgentLink {
  /** Too slow to keep up with a busy host: its newest rows come late. */
  isSlow: boolean;
  /** Mean of these pulls. */
  pullMs: number;
  pullBytes: number;
  bytesPerSecond: number;
}
