export const outputFormats = ["table", "wide", "json", "yaml", "csv"] as const;
export type OutputFormat = (typeof outputFormats)[number];
