/** One link for many sites in a file, created by bpf(2) itself: libbpf before 1.3 has no call for it. Linux 6.6 or newer. */

import { CoralError } from "../base/errors.ts";
import type { BpfLink } from "./bpf-object.ts";
import type { Libbpf } from "./libbpf.ts";

export interface UprobeSites {
  /** The path in this process's view, also through another process's root; the kernel resolves it to the file once. */
  path: string;
  /** Offsets in the file, at instruction boundaries: a probe inside an instruction breaks the program. */
  offsets: readonly number[];
  /** The result of `bpf_get_attach_cookie()` at each site; as many as offsets. */
  cookies?: readonly bigint[];
  /** Only for this process; default all that run the file. Before Linux 6.11, only for its main thread. */
  pid?: number;
  /** Probe the return of the function that starts at the site. */
  isReturn?: boolean;
  /** Probe both, if the program was loaded for it: see `uprobeSessionSection`. */
  isSession?: boolean;
}

/** Set on a program before it is loaded. */
export const uprobeMultiAttachType = 48;
/** One program for entry and return of a call; at entry it decides whether it runs at the return. Linux 6.13 or newer. */
export const uprobeSessionAttachType = 57;
/** The section of such programs. */
export const uprobeSessionSection = "uprobe/session";
const BPF_LINK_CREATE = 28;
const BPF_F_UPROBE_MULTI_RETURN = 1;
const EPERM = 1;
const EACCES = 13;
/** Most sites of one link; the kernel allows a million. */
const maxSites = 65_536;

/** Attaches off the main thread: a thousand sites take 50 ms. Nothing is attached if it throws. */
export async function attachUprobeMulti(libbpf: Libbpf, programFd: number, sites: UprobeSites): Promise<BpfLink> {
  const count = sites.offsets.length;
  if (count === 0 || count > maxSites || (sites.cookies !== undefined && sites.cookies.length !== count)) {
    throw new CoralError({
      code: "internal",
      message: `Cannot attach to "${sites.path}": ${count} sites with ${sites.cookies?.length ?? 0} cookies`,
    });
  }
  const path = Buffer.from(`${sites.path}\0`);
  const offsets = Buffer.from(BigUint64Array.from(sites.offsets, BigInt).buffer);
  const cookies = sites.cookies === undefined ? undefined : Buffer.from(BigUint64Array.from(sites.cookies).buffer);
  // union bpf_attr, link_create with its uprobe_multi part at byte 16.
  const attributes = Buffer.alloc(64);
  attributes.writeUInt32LE(programFd, 0);
  attributes.writeUInt32LE(sites.isSession === true ? uprobeSessionAttachType : uprobeMultiAttachType, 8);
  attributes.writeBigUInt64LE(libbpf.addressOf(path), 16);
  attributes.writeBigUInt64LE(libbpf.addressOf(offsets), 24);
  if (cookies !== undefined) attributes.writeBigUInt64LE(libbpf.addressOf(cookies), 40);
  attributes.writeUInt32LE(count, 48);
  attributes.writeUInt32LE(sites.isReturn === true ? BPF_F_UPROBE_MULTI_RETURN : 0, 52);
  attributes.writeUInt32LE(sites.pid ?? 0, 56);
  const fd = await libbpf.bpfAsync(BPF_LINK_CREATE, attributes, [path, offsets, ...(cookies === undefined ? [] : [cookies])]);
  if (fd < 0) throw refused(sites.path, -fd);
  let closing: Promise<void> | undefined;
  return {
    [Symbol.asyncDispose]: () => {
      closing ??= libbpf.closeFdAsync(fd);
      return closing;
    },
  };
}

function refused(path: string, errno: number): CoralError {
  const isDenied = errno === EPERM || errno === EACCES;
  return new CoralError({
    code: isDenied ? "not-permitted" : "unsupported",
    message: `Cannot attach to "${path}": the kernel refuses with errno ${errno}`,
    details: { errno },
  });
}
