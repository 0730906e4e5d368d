/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The record that user space gets for a payload of HTTP/2, read by http2-frames.ts: a sequence number per direction, which shows lost
 * records, then entries for frames. Part of requests.bpf.c.
 */
#ifndef CORAL_PROTOCOL_HTTP2_RECORD_H
#define CORAL_PROTOCOL_HTTP2_RECORD_H

#include "protocol/http2-frame.h"

/* Most bytes of a record. Below CHUNK_BYTES: a full chunk would announce another piece of the payload. */
#define HTTP2_RECORD 4000

struct http2_direction {
	/* Bytes of the current frame that are still to be copied, and those after them to be skipped. */
	u32 take;
	u32 skip;
	u32 sequence;
	/* Of the current frame. */
	u32 stream;
	u32 length;
	/* Body bytes not reported yet, and their stream. */
	u32 data_stream;
	u32 data_bytes;
	u8 type;
	u8 flags;
	/* Bytes of an incomplete frame header. */
	u8 header_bytes;
	/* 1 while frame boundaries are known. */
	u8 in_sync;
	/* The current DATA frame ends its stream. */
	u8 ends;
	/* The next bytes are the first of their frame. */
	u8 is_first;
	u8 reserved[2];
	/* 9 bytes, and room for what the verifier cannot rule out. */
	u8 header[24];
};

/* Progress through one payload. */
struct http2_walk {
	/* The current contiguous piece of memory. */
	u64 base;
	u64 vectors;
	u32 left;
	u32 vector;
	u32 vector_count;
	/* Bytes of the payload after this piece. */
	u32 rest;
	/* Bytes of the current record, at scratch->bytes. */
	u32 filled;
	u32 wants_bodies;
	/* A record was lost. */
	u32 is_missed;
	u32 reserved;
};

/* Precedes the copied bytes of a frame in a record. */
struct http2_entry {
	u8 type;
	u8 flags;
	u16 taken;
	u32 stream;
	u32 length;
};

#define HTTP2_SEQUENCE_BYTES 4

/* Emits the current record. */
static __attribute__((noinline)) void http2_flush(struct http2_walk *walk, struct http2_direction *direction, struct scratch *scratch)
{
	struct payload_record *record = (void *)scratch->record;
	u32 filled = walk->filled;

	walk->filled = HTTP2_SEQUENCE_BYTES;
	if (filled <= HTTP2_SEQUENCE_BYTES || filled > HTTP2_RECORD)
		return;
	*(u32 *)scratch->bytes = direction->sequence++;
	record->bytes = filled;
	record->length = filled;
	walk->is_missed |= emit(record, sizeof(*record) + filled);
}

/* Reserves an entry of the given size, including its header, and returns its position. */
static always_inline u32 http2_reserve(struct http2_walk *walk, struct http2_direction *direction, struct scratch *scratch, u32 bytes)
{
	if (walk->filled + bytes > HTTP2_RECORD)
		http2_flush(walk, direction, scratch);
	return walk->filled;
}

/*
 * Adds an entry to the record. `what` is type, flags << 8 and copied bytes << 16; those bytes are already in place. `length` is that of the
 * frame.
 */
static __attribute__((noinline)) void http2_add(struct http2_walk *walk, struct http2_direction *direction, struct scratch *scratch,
						u32 what, u32 length)
{
	u32 at = http2_reserve(walk, direction, scratch, sizeof(struct http2_entry) + (what >> 16));
	struct http2_entry *entry;

	if (at > HTTP2_RECORD)
		return;
	entry = (void *)(scratch->bytes + at);
	entry->type = what;
	entry->flags = what >> 8;
	entry->taken = what >> 16;
	entry->stream = (what & 0xff) == HTTP2_DATA ? direction->data_stream : direction->stream;
	entry->length = length;
	walk->filled = at + sizeof(*entry) + (what >> 16);
}

/* Reports the body bytes of a stream so far. */
static always_inline void http2_add_data(struct http2_walk *walk, struct http2_direction *direction, struct scratch *scratch, u32 flags)
{
	if (direction->data_stream)
		http2_add(walk, direction, scratch, HTTP2_DATA | flags << 8, direction->data_bytes);
	direction->data_stream = 0;
	direction->data_bytes = 0;
}

#endif
