export const outputFormats = ["table", "wide", "json", "yaml", "csv"] as const;
/** Formats of commands that can print a graph; `dot` is GraphViz. */
export const graphFormats = [...outputFormats, "dot"] as const;
/** Formats of profiles; `folded` is the input of flame graph tools. */
export const profileFormats = [...outputFormats, "folded"] as const;
export type OutputFormat = (typeof graphFormats)[number] | (typeof profileFormats)[number];
