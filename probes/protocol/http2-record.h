/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What of a payload of HTTP/2 is told to user space: one record, which src/traffic/protocols/http2-frames.ts reads: a sequence number of the
 * direction, so that a lost record is noticed, then frames.
 */
#ifndef CORAL_PROTOCOL_HTTP2_RECORD_H
#define CORAL_PROTOCOL_HTTP2_RECORD_H

#include "protocol/http2-frame.h"

/* Most of a record: below CHUNK_BYTES, which would announce another piece of a payload. */
#define HTTP2_RECORD 4000

struct http2_direction {
	/* Bytes of the frame under way that are wanted, and after them those that are not. */
	u32 take;
	u32 skip;
	u32 sequence;
	/* Of the frame under way. */
	u32 stream;
	u32 length;
	/* Bytes of bodies that were not told yet, and whose they are. */
	u32 data_stream;
	u32 data_bytes;
	u8 type;
	u8 flags;
	/* Bytes of a header that came apart. */
	u8 header_bytes;
	/* Where frames begin is known. */
	u8 in_sync;
	/* The body under way ends its stream. */
	u8 ends;
	/* The next piece is the first of its frame. */
	u8 is_first;
	u8 reserved[2];
	/* Room for what the verifier cannot rule out. */
	u8 header[24];
};

/* Where the walk through one payload stands. */
struct http2_walk {
	/* The piece of memory. */
	u64 base;
	u64 vectors;
	u32 left;
	u32 vector;
	u32 vector_count;
	/* Of the payload, behind the piece. */
	u32 rest;
	/* Bytes of the record under way, at scratch->bytes. */
	u32 filled;
	u32 wants_bodies;
	/* A record was lost. */
	u32 is_missed;
	u32 reserved;
};

/* In a record, before the bytes that were taken of a frame. */
struct http2_entry {
	u8 type;
	u8 flags;
	u16 taken;
	u32 stream;
	u32 length;
};

#define HTTP2_SEQUENCE_BYTES 4

/* Sends the record under way. */
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

/* Where the next frame goes that takes so many bytes, its head included. */
static always_inline u32 http2_reserve(struct http2_walk *walk, struct http2_direction *direction, struct scratch *scratch, u32 bytes)
{
	if (walk->filled + bytes > HTTP2_RECORD)
		http2_flush(walk, direction, scratch);
	return walk->filled;
}

/* Adds a frame to the record, `what` is type | flags << 8 | taken << 16; the bytes taken stand behind its head already. `length` is its own. */
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

/* Tells how long the body of a stream was so far. */
static always_inline void http2_add_data(struct http2_walk *walk, struct http2_direction *direction, struct scratch *scratch, u32 flags)
{
	if (direction->data_stream)
		http2_add(walk, direction, scratch, HTTP2_DATA | flags << 8, direction->data_bytes);
	direction->data_stream = 0;
	direction->data_bytes = 0;
}

#endif
