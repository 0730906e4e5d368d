/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * When a record wakes the reader of its ring; included by requests.bpf.c and connections.bpf.c.
 *
 * User space polls a ring twice a second. Between polls it is woken only when the ring fills: a quiet host costs nothing, and a burst is
 * read before the ring overflows. See ring-watch.ts.
 */
#ifndef CORAL_CORE_RING_WAKE_H
#define CORAL_CORE_RING_WAKE_H

#include "core/bpf.h"

/* Wake above 1/8 of the ring: the reader then has as long as it takes to fill the other 7/8. */
#define WAKE_PART 8

/*
 * The flag for bpf_ringbuf_output() and bpf_ringbuf_submit(). Every record above the mark wakes, not only the one that crosses it: two
 * processors may cross it together, neither seeing the record of the other. The kernel merges wake-ups that are still pending.
 */
static always_inline u64 wake_flag(void *ring)
{
	u64 waiting = bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA);

	return waiting * WAKE_PART > bpf_ringbuf_query(ring, BPF_RB_RING_SIZE) ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

#endif
