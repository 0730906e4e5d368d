/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The scope of an agent: the processes that have a pid in its pid namespace. Hooks run for every process of the machine; an agent in a
 * container without the host's pid namespace must record only the processes in its own namespace, by their pids there.
 */
#ifndef CORAL_CORE_SCOPE_H
#define CORAL_CORE_SCOPE_H

#include "core/bpf.h"

/* <linux/pid_namespace.h> */
#define MAX_PID_NAMESPACE_LEVEL 32
/* Size of struct upid on 64-bit kernels. */
#define UPID_BYTES 16

/*
 * The agent's pid namespace; 0: the initial one, in which every process has a pid. The verifier then removes the code for all others, so
 * that an agent of the whole host pays nothing.
 */
const volatile u32 pid_namespace_inode = 0;

/* Unlike bpf_get_current_task_btf(), a number, which may be passed to a subprogram. */
static u64 (*const bpf_get_current_task)(void) = (void *)35;

#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wpadded"
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	u32 inum;
};

struct pid_namespace {
	struct ns_common ns;
};

struct upid {
	s32 nr;
	struct pid_namespace *ns;
};

/* One entry of `numbers` per level, from the initial namespace to the process's own. */
struct pid {
	u32 level;
	struct upid numbers[1];
};

struct task_struct___pid {
	struct task_struct___pid *group_leader;
	struct pid *thread_pid;
};

#pragma clang attribute pop
#pragma clang diagnostic pop

/*
 * The pid of a task's process in the agent's namespace; 0: it has none. bpf_get_ns_current_pid_tgid() would miss processes of nested
 * namespaces: it compares the innermost one only.
 */
subprogram u32 scoped_process(u64 address)
{
	struct task_struct___pid *task = (void *)address, *leader = 0;
	struct pid *pid = 0;
	u32 last = 0;

	core_read(&leader, &task->group_leader);
	core_read(&pid, &leader->thread_pid);
	core_read(&last, &pid->level);
#pragma clang loop unroll(disable)
	for (u32 level = 1; level < MAX_PID_NAMESPACE_LEVEL + 1; level++) {
		struct pid_namespace *namespace = 0;
		struct upid *number = (void *)pid + FIELD_OFFSET(struct pid, numbers) + level * UPID_BYTES;
		u32 inode = 0;
		s32 nr = 0;

		if (level > last)
			return 0;
		core_read(&namespace, &number->ns);
		core_read(&inode, &namespace->ns.inum);
		if (inode != pid_namespace_inode)
			continue;
		core_read(&nr, &number->nr);
		return nr;
	}
	return 0;
}

/* The pid of the current process as the agent sees it; 0: it is outside of its scope. */
static always_inline u32 current_process(void)
{
	return pid_namespace_inode ? scoped_process(bpf_get_current_task()) : bpf_get_current_pid_tgid() >> 32;
}

/* The same for hooks that already have the current task. */
static always_inline u32 current_process_of(const struct task_struct *task)
{
	return pid_namespace_inode ? scoped_process(bpf_get_current_task()) : (u32)task->tgid;
}

/* `process` is a result of the functions above. */
static always_inline int is_out_of_scope(u32 process)
{
	return pid_namespace_inode && !process;
}

#endif
