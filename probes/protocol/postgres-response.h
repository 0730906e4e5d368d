/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Responses of PostgreSQL, walked message by message: the outcome is in messages, and their type letters also occur in rows. Part of
 * requests.bpf.c.
 *
 * The position is kept from one payload to the next. Once it is lost, responses are skipped until the next request.
 */
#ifndef CORAL_PROTOCOL_POSTGRES_RESPONSE_H
#define CORAL_PROTOCOL_POSTGRES_RESPONSE_H

#include "protocol/classify.h"
#include "requests/request-table.h"

/*
 * Indexes of connection.extra. POSTGRES_MESSAGE_LEFT: bytes of the current message still to come, with POSTGRES_UNCODED; or POSTGRES_LOST.
 * The start of a message header is in `response_prefix`.
 */
#define POSTGRES_UNNAMED 0 /* fingerprint of the unnamed statement */
#define POSTGRES_PREPARED 1 /* not 0: named statements were emitted */
#define POSTGRES_MESSAGE_LEFT 2
#define POSTGRES_SIMPLE 3 /* not 0: the open request is a simple query */

/* The current message is an error whose code was not seen yet. */
#define POSTGRES_UNCODED (1ULL << 32)
#define POSTGRES_LOST ~0ULL

#define POSTGRES_HEADER_BYTES 5
/* Read first of a payload, since most responses are shorter; then CHUNK_BYTES at a time. */
#define POSTGRES_BYTES 1024
#define POSTGRES_MAX_MESSAGE (1U << 30)
/* Fields of an error, each a letter and a zero-terminated text: the severity, twice, then the code. */
#define POSTGRES_ERROR_BYTES 64
#define POSTGRES_NO_CODE 2
/* Messages per call of the walk, and calls per payload: enough for 384 KiB of rows of 12 bytes. */
#define POSTGRES_WALK 64
#define POSTGRES_STEPS 512
#define POSTGRES_MASK (2 * CHUNK_BYTES - 1)

/* Progress through one payload; in memory so that the verifier does not track it. */
struct postgres_walk {
	/* Where the next bytes of the payload are read. */
	u32 offset;
	/* Bytes at scratch->bytes that came with an earlier payload. */
	u32 kept;
	/* Bytes of the current message after what was read. */
	u64 left;
	u32 status;
	u8 has_ended;
	u8 is_copy;
	u8 is_lost;
	u8 reserved;
};

static always_inline u32 postgres_digit(u8 character)
{
	return character >= 'A' ? character - 'A' + 10 : character - '0';
}

/* The SQLSTATE in the error fields at `offset` of the payload, as a base-36 number; POSTGRES_NO_CODE if it is missing. */
subprogram u32 postgres_state(struct payload *payload, struct scratch *scratch, u32 offset)
{
	u32 at = 0, number;
	const u8 *text;

	if (!payload || !scratch)
		return STATUS_NONE;
	__builtin_memset(scratch->bytes, 0, POSTGRES_ERROR_BYTES + 8);
	if (!read_bytes(payload, scratch, 0, offset, POSTGRES_ERROR_BYTES))
		return POSTGRES_NO_CODE;
	text = scratch->bytes;
#pragma clang loop unroll(disable)
	for (u32 index = 0; index < POSTGRES_ERROR_BYTES - 8; index++) {
		if (!text[index] && text[index + 1] == 'C') {
			scratch->number = index + 2;
			at = *(volatile u32 *)&scratch->number & (POSTGRES_ERROR_BYTES - 1);
			break;
		}
	}
	if (!at || !text[at + 4])
		return POSTGRES_NO_CODE;
	number = postgres_digit(text[at]);
	number = number * 36 + postgres_digit(text[at + 1]);
	number = number * 36 + postgres_digit(text[at + 2]);
	number = number * 36 + postgres_digit(text[at + 3]);
	number = number * 36 + postgres_digit(text[at + 4]);
	return number > 1 ? number : POSTGRES_NO_CODE;
}

/* True for types of messages that a server sends: RSKZTDCEN123nsIVAGHWtdcv. */
static always_inline int postgres_is_server_message(u8 type)
{
	const u64 letters = 1ULL << ('R' & 63) | 1ULL << ('S' & 63) | 1ULL << ('K' & 63) | 1ULL << ('Z' & 63) | 1ULL << ('T' & 63) |
			    1ULL << ('D' & 63) | 1ULL << ('C' & 63) | 1ULL << ('E' & 63) | 1ULL << ('N' & 63) | 1ULL << ('n' & 63) |
			    1ULL << ('s' & 63) | 1ULL << ('I' & 63) | 1ULL << ('V' & 63) | 1ULL << ('A' & 63) | 1ULL << ('G' & 63) |
			    1ULL << ('H' & 63) | 1ULL << ('W' & 63) | 1ULL << ('t' & 63) | 1ULL << ('d' & 63) | 1ULL << ('c' & 63) |
			    1ULL << ('v' & 63);

	return type >= 64 ? type < 128 && letters >> (type & 63) & 1 : type >= '1' && type <= '3';
}

/*
 * Walks on from scratch->at to a message that shows the outcome, whose type is then in scratch->method, or to the end of what was read. 1:
 * there is more to walk.
 */
subprogram int postgres_walk_messages(struct scratch *scratch, struct postgres_walk *walk)
{
	if (!scratch || !walk)
		return 0;
	scratch->method = 0;
#pragma clang loop unroll(disable)
	for (u32 index = 0; index < POSTGRES_WALK; index++) {
		u32 at = *(volatile u32 *)&scratch->at, size;
		const u8 *message;

		if (at + POSTGRES_HEADER_BYTES > scratch->total)
			return 0;
		message = scratch->bytes + (at & POSTGRES_MASK);
		size = big32(message + 1);
		if (size < 4 || size > POSTGRES_MAX_MESSAGE || !postgres_is_server_message(message[0])) {
			walk->is_lost = 1;
			return 0;
		}
		scratch->at = at + 1 + size;
		if (message[0] == 'E' || message[0] == 'Z' || message[0] == 'G' || message[0] == 'W') {
			scratch->method = message[0];
			scratch->number = at;
			return 1;
		}
	}
	return 1;
}

/* Reads the next bytes. 0: the end of the payload, or they cannot be read. */
static always_inline int postgres_read_next(struct payload *payload, struct scratch *scratch, struct postgres_walk *walk, u32 wanted)
{
	u32 rest = payload->length - walk->offset, size;

	if (walk->left >= rest) {
		walk->left -= rest;
		return 0;
	}
	walk->offset += walk->left;
	walk->left = 0;
	size = read_bytes(payload, scratch, walk->kept & 7, walk->offset, wanted);
	if (!size) {
		walk->is_lost = 1;
		count_loss(LOSS_UNREADABLE);
		return 0;
	}
	scratch->total = walk->kept + size;
	scratch->at = 0;
	walk->offset += size;
	return 1;
}

/* All bytes that were read have been walked: continues after them, or with the incomplete header at their end. 0: nothing more to read. */
static always_inline int postgres_end_piece(struct payload *payload, struct connection *connection, struct scratch *scratch,
					    struct postgres_walk *walk)
{
	u32 at = scratch->at, total = scratch->total;

	walk->kept = 0;
	if (at >= total) {
		walk->left = at - total;
	} else if (walk->offset < payload->length) {
		walk->offset -= total - at;
	} else {
		connection->response_prefix_bytes = total - at;
		__builtin_memcpy(connection->response_prefix, scratch->bytes + (at & POSTGRES_MASK), 8);
		return 0;
	}
	return postgres_read_next(payload, scratch, walk, CHUNK_BYTES);
}

/* A message that shows the outcome, at scratch->number. */
static always_inline void postgres_note_message(struct payload *payload, struct scratch *scratch, struct postgres_walk *walk)
{
	/* Offset of the error fields in the payload; the message may end after what was read. */
	u32 fields = walk->offset - scratch->total + scratch->number + POSTGRES_HEADER_BYTES;
	u32 behind = scratch->at - scratch->number - POSTGRES_HEADER_BYTES;

	if (scratch->method == 'Z') {
		walk->has_ended = 1;
		return;
	}
	if (scratch->method != 'E') {
		walk->is_copy = 1;
		return;
	}
	walk->status = postgres_state(payload, scratch, fields);
	/* scratch->bytes now hold the error fields: what follows them is read again. */
	walk->offset = fields;
	walk->left = behind;
	walk->kept = 0;
}

/* One call of the walk through a payload. 0: it is over. */
subprogram int postgres_step(struct payload *payload, struct connection *connection, struct scratch *scratch, struct postgres_walk *walk)
{
	u32 has_more;

	if (!payload || !connection || !scratch || !walk)
		return 0;
	has_more = postgres_walk_messages(scratch, walk);
	if (walk->is_lost)
		return 0;
	if (scratch->method)
		postgres_note_message(payload, scratch, walk);
	if (walk->has_ended)
		return 0;
	if (scratch->method == 'E')
		return postgres_read_next(payload, scratch, walk, CHUNK_BYTES);
	return has_more || postgres_end_piece(payload, connection, scratch, walk);
}

/* Walks through the messages of a payload. */
static always_inline void postgres_walk_payload(struct payload *payload, struct connection *connection, struct scratch *scratch,
						struct postgres_walk *walk)
{
	walk->kept = connection->response_prefix_bytes;
	connection->response_prefix_bytes = 0;
	if (walk->kept)
		__builtin_memcpy(scratch->bytes, connection->response_prefix, 8);
	if (!postgres_read_next(payload, scratch, walk, POSTGRES_BYTES))
		return;
#pragma clang loop unroll(disable)
	for (u32 step = 0; step < POSTGRES_STEPS; step++) {
		if (!postgres_step(payload, connection, scratch, walk))
			return;
	}
	walk->is_lost = 1;
}

static always_inline void postgres_on_response(struct payload *payload, struct connection *connection, struct scratch *scratch)
{
	u64 before = connection->extra[POSTGRES_MESSAGE_LEFT];
	struct postgres_walk walk = {};

	if (connection->state == STATE_IDLE)
		return;
	extend_response(payload, connection);
	walk.status = connection->status;
	walk.left = (u32)before;
	if (!payload->buffer) {
		count_loss(LOSS_UNREADABLE);
		walk.is_lost = 1;
	} else if (before == POSTGRES_LOST) {
		walk.is_lost = 1;
	} else {
		if (before & POSTGRES_UNCODED)
			walk.status = postgres_state(payload, scratch, 0);
		postgres_walk_payload(payload, connection, scratch, &walk);
	}
	begin_response(payload, connection, walk.status);
	connection->extra[POSTGRES_MESSAGE_LEFT] =
		walk.is_lost ? POSTGRES_LOST : walk.left | (walk.left && walk.status == POSTGRES_NO_CODE ? POSTGRES_UNCODED : 0);
	if (walk.is_copy)
		connection->flags |= CONNECTION_COPY;
	if (walk.has_ended) {
		finish_response(connection);
		connection->flags &= ~CONNECTION_COPY;
	}
}

#endif
