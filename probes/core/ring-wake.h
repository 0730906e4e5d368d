/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * When a record wakes its reader. User space looks at a ring twice a second; in between it is woken only when the ring fills, so that a quiet host
 * costs nothing and a burst is met before it does not fit. See src/probes/ring-alarm.ts.
 */
#ifndef CORAL_CORE_RING_WAKE_H
#define CORAL_CORE_RING_WAKE_H

#include "core/bpf.h"

/* Of the ring: the reader has the time in which the rest fills. */
#define WAKE_PART 8

/*
 * The flag of bpf_ringbuf_output and bpf_ringbuf_submit. Every record above the mark wakes, not just the one that crosses it: two processors may cross it
 * together, each without seeing the other's record. The kernel joins wakes that come before the first was carried out.
 */
static always_inline u64 wake_flag(void *ring)
{
	u64 waiting = bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA);

	return waiting * WAKE_PART > bpf_ringbuf_query(ring, BPF_RB_RING_SIZE) ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

#endif
