/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The ring buffer of requests.bpf.c: what the kernel does not count itself, and the names of what it counts. kernel-layout.ts and
 * payload-records.ts repeat the records; a test compares them with the BTF of the object.
 */
#ifndef CORAL_REQUESTS_RING_H
#define CORAL_REQUESTS_RING_H

#include "core/ring-wake.h"
#include "requests/connection.h"

/* Flags of payloads and of records. */
#define PAYLOAD_TLS 1 /* plaintext of a TLS connection */
#define PAYLOAD_UDP 2
#define PAYLOAD_CAPTURE 4 /* record only: a copy for a capture, not to be counted */
#define PAYLOAD_SYNTHETIC 8 /* record only: a request rebuilt from the state that the kernel kept of it */
#define PAYLOAD_PREPARED 16 /* record only: prepared statements that later payloads may refer to; not to be counted */

#define RECORD_LEARN 1
#define RECORD_PAYLOAD 2
#define RECORD_CLOSED 3 /* a payload_record without bytes: the connection has ended */

/* The head of the first request with a fingerprint, or of the first response with a status. `bytes` bytes follow. */
struct learn_record {
	u8 kind;
	u8 protocol;
	u8 role;
	u8 flags;
	u16 bytes;
	u16 server_port;
	u32 tgid;
	/* 0: the record names a fingerprint; else it names this status. */
	u32 status;
	u64 fingerprint;
	u8 remote[16];
	/* Name of the process, at most 15 bytes. */
	u8 comm[16];
};

/* A piece of a payload: `bytes` bytes follow, from `offset` on, of `length` in all. */
struct payload_record {
	u8 kind;
	u8 protocol;
	u8 role;
	u8 flags;
	u8 direction;
	/* connection.missed: directions that lost records, or copies, before this one. */
	u8 missed;
	u16 bytes;
	u32 connection;
	u32 tgid;
	u64 at_ns;
	/* When the bytes arrived (received) or their send started (sent); 0: unknown. */
	u64 start_ns;
	u32 length;
	u32 offset;
	u16 local_port;
	u16 remote_port;
	/* Datagrams lost so far, of all sockets. */
	u32 missed_datagrams;
	u8 local[16];
	u8 remote[16];
	/* Name of the process: in the first record of a connection and in datagrams; else empty. */
	u8 comm[16];
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_RINGBUF);
	MAP_NUMBER(max_entries, 4194304);
} events SEC(".maps");

/* Emits a record. Not 0: the ring is full; the loss is counted. */
static always_inline int emit(void *record, u32 bytes)
{
	if (likely(!bpf_ringbuf_output(&events, record, bytes, wake_flag(&events))))
		return 0;
	count_loss(LOSS_RING_FULL);
	return 1;
}

#endif
