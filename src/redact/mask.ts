/** Replacement for a secret. */
export const mask = "***";
