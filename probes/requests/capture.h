/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Processes whose payloads are copied to the ring in addition to being counted. capture.ts in src/traffic sets the processes and the deadline.
  * Part of requests.bpf.c.
 */
#ifndef CORAL_REQUESTS_CAPTURE_H
#define CORAL_REQUESTS_CAPTURE_H

#include "requests/payload.h"

/* The lowest bit of a time in capture_targets: copy bodies as well. */
#define CAPTURE_BODIES 1

/* The time until which this process is captured; 0: it is not. */
static always_inline u64 captured_until(u32 tgid, u64 at_ns)
{
	struct controls *control = controls_now();
	u64 *until;

	if (!control || !control->capturing)
		return 0;
	until = bpf_map_lookup_elem(&capture_targets, &tgid);
	return until && *until > at_ns ? *until : 0;
}

static always_inline u32 parent_process(struct task_struct *task)
{
	u64 parent = 0;

	if (!pid_namespace_inode)
		return task->real_parent->tgid;
	core_read((struct task_struct **)&parent, &task->real_parent);
	return scoped_process(parent);
}

/*
 * The captured process that the current one belongs to, or 0. That is the process itself, or its parent if both run the same program: some
 * servers (Postgres) fork a process per connection. The names differ if the child has executed another program.
 */
static always_inline u32 captured_process(u32 tgid, u64 at_ns)
{
	struct controls *control = controls_now();
	struct task_struct *task;
	char own[16] = {}, other[16] = {};
	u32 parent;

	if (!control || !control->capturing)
		return 0;
	if (captured_until(tgid, at_ns))
		return tgid;
	task = bpf_get_current_task_btf();
	parent = parent_process(task);
	core_read(&own, &task->comm);
	core_read(&other, &task->real_parent->comm);
	if (*(u64 *)own != *(u64 *)other || *(u64 *)(own + 8) != *(u64 *)(other + 8))
		return 0;
	return captured_until(parent, at_ns) ? parent : 0;
}

#endif
