/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Shared with user space: the records of connections, the scan marks, and the counters. Part of connections.bpf.c; connection-records.ts
 * and connection-watch.ts hold the other side.
 */
#ifndef CORAL_TCP_RECORDS_H
#define CORAL_TCP_RECORDS_H

#include "core/ring-wake.h"

#define ROLE_UNKNOWN 0
#define ROLE_CLIENT 1
#define ROLE_SERVER 2

#define RECORD_OPENED 1
#define RECORD_CLOSED 2
#define RECORD_FAILED 3

#define REASON_NONE 0
#define REASON_REFUSED 1
#define REASON_RESET 2
#define REASON_TIMED_OUT 3

/* Written by user space. */
struct control {
	/* A scan is in progress while its start is later than its end. */
	u64 scan_start_ns;
	u64 scan_end_ns;
	/* Which of the two peer tables is written to; user space empties the other. */
	u64 active;
};

struct counters {
	/* Connections neither added to a peer nor reported, because the ring was full. */
	u64 lost;
	/* Connections not tracked, because the table was full. */
	u64 untracked;
	u64 announced_second;
	u64 announced;
};

struct connection_record {
	u64 started_ns;
	u64 at_ns;
	u64 bytes_sent;
	u64 bytes_received;
	u32 tgid;
	u32 netns;
	u32 rtt_us;
	u32 retransmits;
	u8 local[16];
	u8 remote[16];
	u16 local_port;
	u16 remote_port;
	u8 kind;
	u8 role;
	u8 reason;
	u8 reserved;
};

/* Keeps the layout of the record in the object's BTF, where a test compares it with the reader's. */
const struct connection_record *record_layout;

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct control);
} control SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct counters);
} counters SEC(".maps");

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_RINGBUF);
	MAP_NUMBER(max_entries, 524288);
} records SEC(".maps");

static const u32 zero = 0;

static always_inline void count_lost(void)
{
	struct counters *now = bpf_map_lookup_elem(&counters, &zero);

	if (now)
		__sync_fetch_and_add(&now->lost, 1);
}

#endif
