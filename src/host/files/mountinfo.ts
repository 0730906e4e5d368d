/** One line of `/proc/<pid>/mountinfo`; paths are decoded. */
export interface MountEntry {
  /** `major:minor` of the file system; equal for all mounts of it. */
  device: string;
  /** The directory of the file system that is mounted: `/` unless it is a bind mount or a subvolume. */
  root: string;
  mountPoint: string;
  options: string[];
  fsType: string;
  source: string;
  superOptions: string[];
}

const maxMounts = 10_000;

/** The kernel escapes blank, tab, newline and backslash as three octal digits. */
function decodeOctal(text: string): string {
  return text.includes("\\")
    ? text.replace(/\\([0-3][0-7]{2})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)))
    : text;
}

export function parseMountInfo(text: string): MountEntry[] {
  const entries: MountEntry[] = [];
  for (const line of text.split("\n")) {
    const fields = line.split(" ");
    // A variable number of optional fields ends with a single hyphen.
    const separator = fields.indexOf("-", 6);
    const [, , device, root, mountPoint, options] = fields;
    const fsType = fields[separator + 1];
    if (separator < 0 || !device || !root || !mountPoint?.startsWith("/") || !options || !fsType) continue;
    entries.push({
      device,
      root: decodeOctal(root),
      mountPoint: decodeOctal(mountPoint),
      options: options.split(","),
      fsType,
      source: decodeOctal(fields[separator + 2] ?? ""),
      superOptions: (fields[separator + 3] ?? "").split(","),
    });
    if (entries.length >= maxMounts) break;
  }
  return entries;
}
