/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Redis: RESP2, RESP3 and inline commands. Part of requests.bpf.c.
 *
 * One command at a time is counted here, by its verb. Pipelines go to the ring, and redis.ts counts them.
 */
#ifndef CORAL_PROTOCOL_REDIS_H
#define CORAL_PROTOCOL_REDIS_H

#include "protocol/redis-commands.h"
#include "requests/payload.h"
#include "requests/request-table.h"

enum redis_parse {
	REDIS_NONE = 0,
	REDIS_PARTIAL = 1,
	REDIS_WHOLE = 2,
};

#define REDIS_BYTES 512
#define REDIS_DIGITS 9
#define REDIS_VERB_BYTES 24
/* Arguments that are walked to find the end of a command. */
#define REDIS_ARGUMENTS 16
#define REDIS_NO_NUMBER ~0U
/* Bytes of an error that are read to find its first word. */
#define REDIS_ERROR_BYTES 32

/* Indexes of connection.extra: where in `head` the length of the verb starts, and where the verb ends. */
#define REDIS_VERB_AT 0
#define REDIS_VERB_END 1
#define REDIS_REPLICATES 2 /* not 0: PSYNC or SYNC was sent */

/* Reads `mark`, digits and CRLF at scratch->at, which becomes the position after them. REDIS_NO_NUMBER: no match. */
subprogram u32 redis_number(struct scratch *scratch, u32 mark)
{
	const u8 *text;
	u32 begin;

	if (!scratch)
		return REDIS_NO_NUMBER;
	begin = scratch->at & (2 * LEARN_BYTES - 1);
	text = scratch->bytes + begin;
	if (text[0] != (u8)mark)
		return REDIS_NO_NUMBER;
	scratch->number = 0;
#pragma clang loop unroll(disable)
	for (u32 index = 1; index <= REDIS_DIGITS + 1; index++) {
		u8 character = text[index];

		if (character == '\r' && index > 1) {
			scratch->at = begin + index + 2;
			return scratch->number;
		}
		if ((u8)(character - '0') > 9)
			break;
		scratch->number = scratch->number * 10 + (character - '0');
	}
	return REDIS_NO_NUMBER;
}

/*
 * Hashes the word at scratch->at in upper case into scratch->fingerprint, up to a space, the end of the line or `limit`. Returns its
 * length.
 */
subprogram u32 redis_word(struct scratch *scratch, u32 limit)
{
	volatile struct path_parser *word;
	const u8 *text;

	if (!scratch)
		return 0;
	text = scratch->bytes + (scratch->at & (2 * LEARN_BYTES - 1));
	word = &scratch->path;
	word->segment = HASH_SEED;
	word->length = 0;
#pragma clang loop unroll(disable)
	for (u32 index = 0; index < REDIS_VERB_BYTES; index++) {
		u8 character = text[index];

		if (index >= limit || character <= ' ' || character > '~')
			break;
		if (character >= 'a' && character <= 'z')
			character -= 32;
		word->segment = (word->segment ^ character) * HASH_PRIME;
		word->length = index + 1;
	}
	scratch->fingerprint = word->segment;
	return word->length;
}

/*
 * Parses a command at the start of scratch->bytes. scratch->fingerprint becomes the hash of its verb; scratch->end becomes its end,
 * possibly after what was read, or 0 if it is unknown.
 */
subprogram u32 redis_parse(struct scratch *scratch)
{
	u32 count, size, total;

	if (!scratch)
		return REDIS_NONE;
	total = scratch->total;
	scratch->at = 0;
	scratch->end = 0;
	count = redis_number(scratch, '*');
	if (count == REDIS_NO_NUMBER || !count || count > 1 << 20)
		return total < 16 && scratch->bytes[0] == '*' ? REDIS_PARTIAL : REDIS_NONE;
	scratch->verb_at = scratch->at;
	size = redis_number(scratch, '$');
	if (size == REDIS_NO_NUMBER || !size || size > REDIS_VERB_BYTES)
		return total < 16 ? REDIS_PARTIAL : REDIS_NONE;
	if (scratch->at + size > total)
		return REDIS_PARTIAL;
	if (redis_word(scratch, size) != size)
		return REDIS_NONE;
	scratch->at += size + 2;
	scratch->verb_end = scratch->at;
#pragma clang loop unroll(disable)
	for (u32 index = 1; index < REDIS_ARGUMENTS; index++) {
		if (index >= count)
			break;
		if (*(volatile u32 *)&scratch->at + 4 > total)
			return REDIS_WHOLE;
		size = redis_number(scratch, '$');
		if (size == REDIS_NO_NUMBER)
			return REDIS_WHOLE;
		scratch->at += size + 2;
	}
	if (count <= REDIS_ARGUMENTS)
		scratch->end = *(volatile u32 *)&scratch->at;
	return REDIS_WHOLE;
}

/* True if these bytes look like a Redis client. */
subprogram u32 redis_is_request(struct payload *payload, struct connection *connection, struct scratch *scratch)
{
	if (!payload || !connection || !scratch)
		return 0;
	/* "PING" CRLF is the one inline command that no other protocol starts with. NATS sends it later, after the server's greeting. */
	if (scratch->total == 6 && connection->side != SIDE_UNKNOWN && !connection->misses &&
	    (*(u32 *)scratch->bytes & 0xdfdfdfdf) == 0x474e4950 && *(u16 *)(scratch->bytes + 4) == 0x0a0d)
		return 1;
	if (scratch->bytes[0] != '*' || redis_parse(scratch) != REDIS_WHOLE)
		return 0;
	if (connection->side == SIDE_UNKNOWN)
		return redis_is_command(scratch->fingerprint);
	return (connection->side == SIDE_ACCEPTED) == (payload->direction == RECEIVED);
}

/*
 * Hands a connection over to the decoder in user space. An open command is emitted as a synthetic record, so that the decoder can match its
 * response.
 */
subprogram int redis_hand_over(struct connection *connection, struct scratch *scratch)
{
	struct payload_record *record;
	u32 at, size;

	if (!connection || !scratch || (connection->flags & CONNECTION_STREAMED))
		return 0;
	connection->flags |= CONNECTION_STREAMED;
	if (take_request(connection) != STATE_PENDING)
		return 0;
	record = (void *)scratch->record;
	at = connection->extra[REDIS_VERB_AT] & 15;
	size = (connection->extra[REDIS_VERB_END] - at) & 63;
	if (!size)
		return 0;
	fill_synthetic_record(record, connection);
	/* The same command without its arguments. */
	__builtin_memcpy(scratch->bytes + 256, connection->head, HEAD_KEPT);
	*(u32 *)scratch->bytes = 0x0a0d312a; /* "*1" CRLF */
	__builtin_memcpy(scratch->bytes + 4, scratch->bytes + 256 + at, 48);
	record->bytes = size + 4;
	record->length = size + 4;
	emit_payload(record, connection, sizeof(*record) + size + 4);
	return 0;
}

static always_inline void redis_begin(struct payload *payload, struct connection *connection, struct scratch *scratch)
{
	u32 length = payload->length + (connection->prefix_direction == payload->direction ? connection->prefix_bytes : 0);
	u32 end = scratch->end;
	u64 verb = scratch->fingerprint;

	connection->extra[REDIS_REPLICATES] = redis_is_sync(verb);
	if (connection->state == STATE_PENDING || (end && end < length)) {
		finish_response(connection);
		redis_hand_over(connection, scratch);
		stream_payload(payload, connection, scratch, MAX_CHUNKS * CHUNK_BYTES, 0);
		return;
	}
	connection->extra[REDIS_VERB_AT] = scratch->verb_at;
	connection->extra[REDIS_VERB_END] = scratch->verb_end;
	scratch->fingerprint = mix(PROTOCOL_REDIS, verb);
	begin_request(payload, connection, learn_if_changed(payload, connection, scratch, HEAD_KEPT), 0, length);
	__builtin_memcpy(connection->head, scratch->bytes, HEAD_KEPT);
	if (end > length)
		connection->request_left = end - length;
	if (redis_starts_push(verb))
		connection->flags |= CONNECTION_SUBSCRIBED;
	else
		connection->flags &= ~CONNECTION_SUBSCRIBED;
}

static always_inline void redis_on_request(struct payload *payload, struct connection *connection, struct scratch *scratch)
{
	u32 left = connection->request_left, parsed;

	if (left && connection->state != STATE_IDLE) {
		connection->request_left = left > payload->length ? left - payload->length : 0;
		connection->request_bytes += payload->length;
		return;
	}
	if (!payload->buffer || !load_head(payload, connection, scratch, REDIS_BYTES)) {
		count_loss(LOSS_UNREADABLE);
		return;
	}
	if (scratch->bytes[0] == '*') {
		parsed = redis_parse(scratch);
	} else {
		/* An inline command: words up to the end of the line. */
		scratch->at = 0;
		scratch->verb_at = 0;
		scratch->verb_end = 0;
		scratch->end = 0;
		parsed = redis_word(scratch, REDIS_VERB_BYTES) >= 2 && (u8)((scratch->bytes[0] | 32) - 'a') < 26 ? REDIS_WHOLE : REDIS_NONE;
	}
	if (parsed == REDIS_WHOLE) {
		redis_begin(payload, connection, scratch);
	} else if (parsed == REDIS_PARTIAL && connection->state != STATE_PENDING && scratch->total < HEAD_KEPT) {
		begin_prefix(payload, connection, scratch);
	} else {
		connection->prefix_bytes = 0;
		if (connection->state == STATE_PENDING)
			connection->request_bytes += payload->length;
		else
			count_loss(LOSS_UNDECODED);
	}
}

/* Hash of the first word of an error, which is emitted once as a LEARN record. Never one of STATUS_*. */
subprogram u32 redis_status(struct payload *payload, struct connection *connection, struct scratch *scratch)
{
	struct learn_record *record;
	u64 key, status;
	u32 bytes;

	if (!payload || !connection || !scratch)
		return STATUS_NONE;
	bytes = scratch->total & 63;
	scratch->at = 1;
	redis_word(scratch, REDIS_VERB_BYTES);
	status = (u32)(scratch->fingerprint ^ scratch->fingerprint >> 32) | 2;
	key = mix(MIX_PRIME, status);
	if (bpf_map_lookup_elem(&learned, &key))
		return status;
	record = (void *)(scratch->record + sizeof(struct payload_record) - sizeof(struct learn_record));
	__builtin_memset(record, 0, sizeof(*record));
	record->kind = RECORD_LEARN;
	record->protocol = connection->protocol;
	record->role = connection->role;
	record->bytes = bytes;
	record->tgid = payload->tgid;
	record->status = status;
	if (!emit(record, sizeof(*record) + bytes))
		bpf_map_update_elem(&learned, &key, &status, BPF_ANY);
	return status;
}

static always_inline void redis_on_response(struct payload *payload, struct connection *connection, struct scratch *scratch)
{
	u32 status = STATUS_NONE;

	if (connection->state == STATE_IDLE)
		return;
	if (connection->state == STATE_PENDING) {
		u32 total = payload->buffer ? read_bytes(payload, scratch, 0, 0, REDIS_ERROR_BYTES) : 0;

		if (!total)
			count_loss(LOSS_UNREADABLE);
		scratch->total = total;
		*(u64 *)(scratch->bytes + (total & 63)) = 0;
		/* RESP3: a push message. */
		if (total && scratch->bytes[0] == '>') {
			/* Counts as read, although it is not the reply: see note_replies_read(). */
			if (connection->role == ROLE_CLIENT)
				connection->ready_seq += payload->length;
			return;
		}
		if (total && scratch->bytes[0] == '-')
			status = redis_status(payload, connection, scratch);
		begin_response(payload, connection, status);
	}
	extend_response(payload, connection);
	if (connection->flags & CONNECTION_SUBSCRIBED)
		finish_response(connection);
	if (connection->extra[REDIS_REPLICATES])
		connection->protocol = PROTOCOL_IGNORED;
}

/* For a payload that goes to the ring and is still in scratch->bytes. 1: from here on the server replicates to this client. */
static always_inline int redis_has_synced(const struct payload *payload, struct connection *connection, const struct scratch *scratch)
{
	if (connection->protocol != PROTOCOL_REDIS)
		return 0;
	if (!is_request(connection, payload->direction))
		return connection->extra[REDIS_REPLICATES] != 0;
	/* *3, $5, PSYNC */
	connection->extra[REDIS_REPLICATES] = payload->length >= 24 && *(u64 *)scratch->bytes == 0x0a0d35240a0d332aULL &&
					      *(u32 *)(scratch->bytes + 8) == 0x4e595350 && *(u16 *)(scratch->bytes + 12) == 0x0d43;
	return 0;
}

subprogram int redis_data(struct payload *payload, struct connection *connection, struct scratch *scratch)
{
	if (!payload || !connection || !scratch)
		return 0;
	if (is_request(connection, payload->direction))
		redis_on_request(payload, connection, scratch);
	else
		redis_on_response(payload, connection, scratch);
	return 0;
}

#endif
