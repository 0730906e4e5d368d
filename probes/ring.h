/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The ring through which requests.bpf.c tells user space what it does not count itself. */
#ifndef CORAL_RING_H
#define CORAL_RING_H

#include "connection.h"
#include "ring-wake.h"

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_RINGBUF);
	MAP_NUMBER(max_entries, 4194304);
} events SEC(".maps");

/* Zero when the record was told; one that does not fit is counted. */
static always_inline int tell(void *record, u32 bytes)
{
	if (likely(!bpf_ringbuf_output(&events, record, bytes, wake_flag(&events))))
		return 0;
	count_loss(LOSS_RING_FULL);
	return 1;
}

#endif
