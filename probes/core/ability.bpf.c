/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One minimal program per attach type. Coral tests what the kernel allows instead of guessing by version: it loads and attaches each
  * program alone, and detaches it at once. A program is named ability_<name of the ability>; kernel-ability.ts lists the names. A separate
  * object.
 */
#include "core/bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_RINGBUF);
	MAP_NUMBER(max_entries, 65536);
} events SEC(".maps");

/* Enough to show that records arrive intact: when, and in which process. */
struct event {
	u64 at_ns;
	u64 pid_tgid;
};

/* Only the ring buffer check uses the map. The other programs must not need it, or a failed map would look like a failed attach. */
SEC("raw_tracepoint/sched_switch")
int ability_ring_buffer(void *context)
{
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	(void)context;
	if (!event)
		return 0;
	event->at_ns = bpf_ktime_get_ns();
	event->pid_tgid = bpf_get_current_pid_tgid();
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("raw_tracepoint/sched_switch")
int ability_raw_tp(void *context)
{
	(void)context;
	return 0;
}

/* The tracepoints of the traffic hooks. Each may be missing, and the traffic hooks have a fallback for each. */
SEC("raw_tracepoint/sock_recv_length")
int ability_sock_recv_length(void *context)
{
	(void)context;
	return 0;
}

SEC("raw_tracepoint/sock_send_length")
int ability_sock_send_length(void *context)
{
	(void)context;
	return 0;
}

SEC("raw_tracepoint/sk_data_ready")
int ability_sk_data_ready(void *context)
{
	(void)context;
	return 0;
}

SEC("raw_tracepoint/inet_sock_set_state")
int ability_inet_sock_set_state(void *context)
{
	(void)context;
	return 0;
}

/* Arguments of sched_switch: preempt, prev, next. Reading prev->pid proves that CO-RE and typed pointers work. */
SEC("tp_btf/sched_switch")
int ability_tp_btf(u64 *context)
{
	struct task_struct *previous = (void *)context[1];

	return previous->pid < 0;
}

SEC("tracepoint/syscalls/sys_enter_getppid")
int ability_tracepoint(void *context)
{
	(void)context;
	return 0;
}

SEC("perf_event")
int ability_perf_event(void *context)
{
	(void)context;
	return 0;
}

/* User space attaches this program and the next one by path and offset. */
SEC("uprobe")
int ability_uprobe(void *context)
{
	(void)context;
	return 0;
}

SEC("uprobe")
int ability_uprobe_multi(void *context)
{
	(void)context;
	return 0;
}

SEC("kprobe/do_exit")
int ability_kprobe(void *context)
{
	(void)context;
	return 0;
}

SEC("fentry/do_exit")
int ability_fentry(void *context)
{
	(void)context;
	return 0;
}
