/** The parts of the YAML library in use, behind one lazy import: loading it takes longer than reading a config. */

export { isMap, LineCounter, parseDocument, stringify } from "yaml";
