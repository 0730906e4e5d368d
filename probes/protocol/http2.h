/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * HTTP/2 and gRPC. Part of requests.bpf.c.
 *
 * Walks the frames of each direction and emits what describes requests: header blocks, resets, GOAWAY, and the length and end of bodies
 * (http2-record.h). http2-stream.ts counts them.
 */
#ifndef CORAL_PROTOCOL_HTTP2_H
#define CORAL_PROTOCOL_HTTP2_H

#include "protocol/http2-record.h"
#include "requests/capture.h"

/* Most bytes of a frame that are copied in one step. */
#define HTTP2_PIECE 2032
/* Most bytes of a header block that are copied; a longer one is cut, and the decoder resets its HPACK table. */
#define HTTP2_MAX_BLOCK 16384
/* Most bytes of a body per frame for a capture. */
#define HTTP2_BODY 1024
/* Steps per payload: frames, parts of frames and pieces of memory. */
#define HTTP2_STEPS 2048
/* Body bytes are reported at least this often: a reset comes in the other direction, where this direction's sum is not known. */
#define HTTP2_MAX_UNREPORTED (1U << 18)

struct http2_connection {
	struct http2_direction directions[2];
	/* Number of the connection: another one may get the same address. */
	u32 id;
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, 16384);
	MAP_NUMBER(map_flags, BPF_F_NO_PREALLOC);
	MAP_TYPE(key, u64); /* address of struct sock */
	MAP_TYPE(value, struct http2_connection);
} http2_connections SEC(".maps");

/* A frame header is complete: decides what to copy of the frame. 0: it is not a valid header. */
static always_inline int http2_begin(struct http2_walk *walk, struct http2_direction *direction, struct scratch *scratch, const u8 *header)
{
	u32 wanted = 0;

	direction->header_bytes = 0;
	if (!http2_is_frame(header))
		return 0;
	direction->type = header[3];
	direction->flags = header[4];
	direction->stream = http2_stream(header);
	direction->length = http2_length(header);
	switch (direction->type) {
	case HTTP2_DATA:
		if (direction->data_stream != direction->stream || direction->data_bytes > HTTP2_MAX_UNREPORTED)
			http2_add_data(walk, direction, scratch, 0);
		direction->data_stream = direction->stream;
		direction->ends = direction->flags & HTTP2_END_STREAM;
		if (walk->wants_bodies)
			wanted = direction->length < HTTP2_BODY ? direction->length : HTTP2_BODY;
		direction->data_bytes += direction->length - wanted;
		if (direction->ends && !direction->length) {
			direction->ends = 0;
			http2_add_data(walk, direction, scratch, HTTP2_END_STREAM);
		}
		break;
	case HTTP2_HEADERS:
	case HTTP2_PUSH_PROMISE:
	case HTTP2_CONTINUATION:
		if (direction->data_stream == direction->stream)
			http2_add_data(walk, direction, scratch, 0);
		wanted = direction->length < HTTP2_MAX_BLOCK ? direction->length : HTTP2_MAX_BLOCK;
		if (!direction->length)
			http2_add(walk, direction, scratch, direction->type | direction->flags << 8, 0);
		break;
	case HTTP2_RST_STREAM:
		if (direction->data_stream == direction->stream)
			http2_add_data(walk, direction, scratch, 0);
		wanted = 4;
		break;
	case HTTP2_GOAWAY:
		wanted = 8;
		break;
	}
	direction->take = wanted;
	direction->skip = direction->length - wanted;
	direction->is_first = 1;
	return 1;
}

/* Copies bytes of the current frame to the record. 0: they cannot be read. */
static always_inline int http2_take(struct http2_walk *walk, struct http2_direction *direction, struct scratch *scratch)
{
	u32 size = direction->take < walk->left ? direction->take : walk->left;
	u32 at;

	if (size > HTTP2_PIECE)
		size = HTTP2_PIECE;
	at = http2_reserve(walk, direction, scratch, sizeof(struct http2_entry) + size);
	if (at > HTTP2_RECORD || bpf_probe_read_user(scratch->bytes + at + sizeof(struct http2_entry), size, (void *)walk->base)) {
		count_loss(LOSS_UNREADABLE);
		return 0;
	}
	walk->base += size;
	walk->left -= size;
	direction->take -= size;
	if (direction->type == HTTP2_DATA)
		http2_add(walk, direction, scratch, HTTP2_DATA | size << 16, size);
	else if (direction->is_first)
		http2_add(walk, direction, scratch, direction->type | direction->flags << 8 | size << 16, direction->length);
	else
		http2_add(walk, direction, scratch, HTTP2_MORE | direction->flags << 8 | size << 16, size);
	direction->is_first = 0;
	return 1;
}

static always_inline int http2_read_header(struct http2_walk *walk, struct http2_direction *direction, struct scratch *scratch)
{
	u32 kept = direction->header_bytes, size;

	if (kept > HTTP2_HEADER_BYTES)
		return 0;
	size = HTTP2_HEADER_BYTES - kept;
	if (size > walk->left)
		size = walk->left;
	if (kept < HTTP2_HEADER_BYTES && size && bpf_probe_read_user(direction->header + (kept & 15), size & 15, (void *)walk->base)) {
		count_loss(LOSS_UNREADABLE);
		return 0;
	}
	walk->base += size;
	walk->left -= size;
	direction->header_bytes = kept + size;
	if (direction->header_bytes < HTTP2_HEADER_BYTES)
		return 1;
	return http2_begin(walk, direction, scratch, direction->header);
}

/*
 * One step: the next piece of memory, a header, or bytes to copy or skip. 0: the end of the payload, or frame boundaries are lost. A global
 * function, so that the verifier checks it once, not for each iteration of the loop around it.
 */
__attribute__((noinline)) int http2_step(struct http2_walk *walk, struct http2_direction *direction, struct scratch *scratch)
{
	u32 size;

	if (!walk || !direction || !scratch)
		return 0;
	if (!walk->left) {
		struct user_iovec vector = {};

		if (!walk->rest || walk->vector >= walk->vector_count)
			return 0;
		if (bpf_probe_read_user(&vector, sizeof(vector), (void *)(walk->vectors + walk->vector * sizeof(vector)))) {
			count_loss(LOSS_UNREADABLE);
			direction->in_sync = 0;
			return 0;
		}
		walk->vector++;
		walk->base = vector.base;
		walk->left = vector.length < walk->rest ? vector.length : walk->rest;
		walk->rest -= walk->left;
		return 1;
	}
	if (direction->take) {
		direction->in_sync = http2_take(walk, direction, scratch);
	} else if (direction->skip) {
		size = direction->skip < walk->left ? direction->skip : walk->left;
		direction->skip -= size;
		walk->base += size;
		walk->left -= size;
	} else {
		direction->in_sync = http2_read_header(walk, direction, scratch);
		return direction->in_sync;
	}
	if (direction->ends && !direction->take && !direction->skip) {
		direction->ends = 0;
		http2_add_data(walk, direction, scratch, HTTP2_END_STREAM);
	}
	return direction->in_sync;
}

/* Frame boundaries are unknown. User space detects this by the gap in the sequence. */
static always_inline void http2_desync(struct http2_direction *direction)
{
	direction->in_sync = 0;
	direction->take = 0;
	direction->skip = 0;
	direction->header_bytes = 0;
	direction->ends = 0;
	direction->data_stream = 0;
	direction->data_bytes = 0;
	direction->sequence++;
}

static __attribute__((noinline)) struct http2_connection *http2_new_state(u64 sk, u32 id)
{
	struct http2_connection fresh = { .id = id };

	if (bpf_map_update_elem(&http2_connections, &sk, &fresh, BPF_ANY)) {
		count_loss(LOSS_CONNECTIONS_FULL);
		return 0;
	}
	return bpf_map_lookup_elem(&http2_connections, &sk);
}

static always_inline struct http2_connection *http2_state(u64 sk, u32 id)
{
	struct http2_connection *state = bpf_map_lookup_elem(&http2_connections, &sk);

	return state && state->id == id ? state : http2_new_state(sk, id);
}

/* Finds out whether a frame starts at the first byte of this payload. Reports the preface, which is then skipped. */
subprogram int http2_sync(struct payload *payload, struct connection *connection, struct http2_direction *direction,
			  struct scratch *scratch, struct http2_walk *walk)
{
	u32 kept, total;

	if (!payload || !connection || !direction || !scratch || !walk)
		return 0;
	kept = connection->prefix_bytes;
	total = load_head(payload, connection, scratch, 16);
	if (kept >= HTTP2_PREFACE_BYTES || connection->prefix_direction != payload->direction)
		kept = 0;
	if (total >= 8 && *(u64 *)scratch->bytes == HTTP2_PREFACE_WORD) {
		direction->stream = 0;
		http2_add(walk, direction, scratch, HTTP2_PREFACE, 0);
		direction->skip = HTTP2_PREFACE_BYTES - kept;
		direction->in_sync = 1;
	} else if (total >= HTTP2_HEADER_BYTES && kept <= HTTP2_HEADER_BYTES && http2_is_frame(scratch->bytes)) {
		/* The start of a frame header was held back until the protocol was known. */
		__builtin_memcpy(direction->header, scratch->bytes, 16);
		direction->header_bytes = kept;
		direction->in_sync = 1;
	}
	return 0;
}

subprogram int http2_data(struct payload *payload, struct connection *connection, struct scratch *scratch)
{
	struct http2_connection *state;
	struct payload_record *record;
	struct http2_direction *direction;
	struct http2_walk walk = {};

	if (!payload || !connection || !scratch)
		return 0;
	state = http2_state(payload->sk, connection->id);
	if (!state)
		return 0;
	record = (void *)scratch->record;
	direction = &state->directions[payload->direction & 1];
	fill_payload_record(record, payload, connection, 0);
	name_process(record, connection);
	walk.filled = HTTP2_SEQUENCE_BYTES;
	if (!payload->buffer) {
		/* Sent from a file: skipped if it is part of a body; otherwise frame boundaries are lost. */
		if (!direction->in_sync || direction->take || direction->skip < payload->length) {
			http2_desync(direction);
			return 0;
		}
		direction->skip -= payload->length;
		if (direction->ends && !direction->skip) {
			direction->ends = 0;
			http2_add_data(&walk, direction, scratch, HTTP2_END_STREAM);
			http2_flush(&walk, direction, scratch);
		}
		return 0;
	}
	if (!direction->in_sync)
		http2_sync(payload, connection, direction, scratch, &walk);
	if (connection->prefix_direction == payload->direction)
		connection->prefix_bytes = 0;
	if (!direction->in_sync)
		return 0;
	walk.rest = payload->length;
	if (payload->vectors) {
		walk.vectors = payload->vectors;
		walk.vector_count = payload->vector_count;
	} else {
		walk.base = payload->buffer;
		walk.left = payload->length;
		walk.rest = 0;
	}
	walk.wants_bodies = captured_until(payload->tgid, payload->at_ns) & CAPTURE_BODIES;
#pragma clang loop unroll(disable)
	for (u32 step = 0; step < HTTP2_STEPS; step++) {
		if (!http2_step(&walk, direction, scratch))
			break;
	}
	http2_flush(&walk, direction, scratch);
	/* The sequence of the next record shows the loss; the end of the connection has none. */
	if (unlikely(walk.is_missed))
		__sync_fetch_and_or(&connection->missed, 1U << (payload->direction & 1));
	if (!direction->in_sync || walk.left || walk.rest) {
		count_loss(LOSS_UNDECODED);
		http2_desync(direction);
	}
	return 0;
}

/* The connection has ended. */
static always_inline void http2_end(u64 sk)
{
	bpf_map_delete_elem(&http2_connections, &sk);
}

#endif
