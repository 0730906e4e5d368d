/** The version of this build; equal to the one in package.json. */
export const version = "0.1.0";
