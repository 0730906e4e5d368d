/** Names of the six ranges of severity numbers, four numbers each; the first is that of number 0. */
export const severityTexts = ["", "trace", "debug", "info", "warn", "error", "fatal"] as const;
