export const outputFormats = ["table", "wide", "json", "yaml", "csv"] as const;
/** Of commands that can draw a graph; `dot` is GraphViz. */
export const graphFormats = [...outputFormats, "dot"] as const;
/** Of profiles; `folded` is what flame graph tools read. */
export const profileFormats = [...outputFormats, "folded"] as const;
export type OutputFormat = (typeof graphFormats)[number] | (typeof profileFormats)[number];
