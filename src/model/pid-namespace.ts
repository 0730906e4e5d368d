/** Inode of the initial pid namespace, PROC_PID_INIT_INO of <linux/proc_ns.h>, on every kernel. All processes of the machine have a number in it. */
export const initialPidNamespace = 0xefff_fffc;
