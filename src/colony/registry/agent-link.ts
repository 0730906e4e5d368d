/** Throughput of an agent's link, over recent pulls that carried rows. */
export interface AgentLink {
  /** Too slow for a busy host: its newest rows arrive late. */
  isSlow: boolean;
  /** Mean over these pulls. */
  pullMs: number;
  pullBytes: number;
  bytesPerSecond: number;
}
