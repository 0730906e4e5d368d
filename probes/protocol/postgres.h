/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * PostgreSQL, protocol 3: simple queries, and Parse, Bind, Execute, Sync. Part of requests.bpf.c.
 *
 * One statement at a time is counted here, by its text without literals. Pipelined ones go to the ring, and postgres.ts counts them.
 */
#ifndef CORAL_PROTOCOL_POSTGRES_H
#define CORAL_PROTOCOL_POSTGRES_H

#include "protocol/postgres-response.h"
#include "protocol/postgres-text.h"
#include "requests/payload.h"

/* Messages of a request that are read. */
#define POSTGRES_MESSAGES 10
#define POSTGRES_VERSION_3 0x30000
#define POSTGRES_CANCEL 80877102
#define POSTGRES_SSL 80877103
#define POSTGRES_GSS 80877104

struct statement_key {
	u64 sk;
	u64 name;
};

/* Fingerprints of named statements, by connection and name. Statements prepared before Coral started, or evicted, are missing. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_LRU_HASH);
	MAP_NUMBER(max_entries, 16384);
	MAP_TYPE(key, struct statement_key);
	MAP_TYPE(value, u64);
} statements SEC(".maps");

/* True if these bytes look like a Postgres client. */
static always_inline u32 postgres_is_request(const u8 *bytes, u32 total, u32 length)
{
	u32 size;

	if (total < 6)
		return 0;
	if (!bytes[0] && total >= 8 && big32(bytes) == length) {
		u32 code = big32(bytes + 4);

		return code >> 16 == POSTGRES_VERSION_3 >> 16 || (code >= POSTGRES_CANCEL && code <= POSTGRES_GSS);
	}
	if (bytes[1])
		return 0;
	size = big32(bytes + 1);
	if (bytes[0] == 'Q')
		return size + 1 == length && length > 6 && bytes[5] >= ' ' && bytes[5] < 127;
	if (bytes[0] == 'P' || bytes[0] == 'B') {
		u8 next;

		if (size < 6 || size + 1 > length)
			return 0;
		if (size + 6 >= total)
			return bytes[2] == 0;
		next = bytes[(size + 1) & (POSTGRES_BYTES - 1)];
		return next == 'B' || next == 'D' || next == 'E' || next == 'S' || next == 'H';
	}
	return 0;
}

/* What a payload requests; in memory so that the verifier does not track it. */
struct postgres_request {
	u64 fingerprint;
	u16 queries;
	u16 executes;
	u32 binds;
	/* Where the current message starts, possibly after what was read. */
	u32 at;
	/* Bytes of the last message still to come. */
	u32 left;
	u16 parses;
	u16 named;
	/* Type of the last message. */
	u32 last;
};

/* Parse defines a named statement, or the unnamed one. */
static always_inline void postgres_parse(struct payload *payload, struct connection *connection, struct scratch *scratch,
					 struct postgres_request *request)
{
	struct statement_key key = { .sk = payload->sk };
	u64 fingerprint;

	scratch->at = request->at + 5;
	key.name = postgres_name(scratch);
	postgres_sql(scratch);
	/* Only the first statement of a payload is learned: payloads with several are not counted here. */
	fingerprint = request->parses++ ? scratch->fingerprint : learn_if_changed(payload, connection, scratch, POSTGRES_BYTES);
	if (key.name) {
		request->named++;
		bpf_map_update_elem(&statements, &key, &fingerprint, BPF_ANY);
	} else {
		connection->extra[POSTGRES_UNNAMED] = fingerprint;
	}
}

static always_inline void postgres_bind(struct payload *payload, struct connection *connection, struct scratch *scratch,
					struct postgres_request *request)
{
	struct statement_key key = { .sk = payload->sk };
	u64 *known;

	scratch->at = request->at + 5;
	postgres_name(scratch);
	key.name = postgres_name(scratch);
	request->binds++;
	if (!key.name) {
		request->fingerprint = connection->extra[POSTGRES_UNNAMED] ? connection->extra[POSTGRES_UNNAMED] : FINGERPRINT_UNREAD;
		return;
	}
	known = bpf_map_lookup_elem(&statements, &key);
	request->fingerprint = known ? *known : FINGERPRINT_UNREAD;
}

/* Reads one message. 0: no further message is readable. */
subprogram int postgres_message(struct payload *payload, struct connection *connection, struct scratch *scratch,
				struct postgres_request *request)
{
	u32 at, size;
	u8 *message;

	if (!payload || !connection || !scratch || !request)
		return 0;
	at = request->at;
	if (at + 5 > scratch->total || at >= POSTGRES_BYTES)
		return 0;
	message = scratch->bytes + (at & (POSTGRES_BYTES - 1));
	size = big32(message + 1);
	if (size < 4 || size > 1 << 30)
		return 0;
	switch (message[0]) {
	case 'Q':
		request->queries++;
		if (request->queries == 1) {
			scratch->at = at + 5;
			postgres_sql(scratch);
			request->fingerprint = learn_if_changed(payload, connection, scratch, POSTGRES_BYTES);
		}
		break;
	case 'P':
		postgres_parse(payload, connection, scratch, request);
		break;
	case 'B':
		postgres_bind(payload, connection, scratch, request);
		break;
	case 'E':
		request->executes++;
		break;
	case 'F':
		request->queries++;
		request->fingerprint = FINGERPRINT_UNREAD;
		break;
	}
	request->last = message[0];
	request->at = at + size + 1;
	request->left = request->at > payload->length ? request->at - payload->length : 0;
	return 1;
}

/*
 * Hands a connection over to the decoder in user space. An open request is emitted as a synthetic record without its text: responses are
 * matched by order.
 */
subprogram int postgres_hand_over(struct connection *connection, struct scratch *scratch)
{
	struct payload_record *record;
	u32 size = 6;

	if (!connection || !scratch)
		return 0;
	connection->flags |= CONNECTION_STREAMED;
	finish_response(connection);
	if (take_request(connection) != STATE_PENDING)
		return 0;
	record = (void *)scratch->record;
	fill_synthetic_record(record, connection);
	__builtin_memset(scratch->bytes, 0, 16);
	if (connection->extra[POSTGRES_SIMPLE]) {
		scratch->bytes[0] = 'Q';
		scratch->bytes[4] = 5;
	} else {
		/* Execute of the unnamed portal with any number of rows, then Sync. */
		scratch->bytes[0] = 'E';
		scratch->bytes[4] = 9;
		scratch->bytes[10] = 'S';
		scratch->bytes[14] = 4;
		size = 15;
	}
	record->bytes = size;
	record->length = size;
	emit_payload(record, connection, sizeof(*record) + size);
	return 0;
}

static always_inline void postgres_on_request(struct payload *payload, struct connection *connection, struct scratch *scratch)
{
	struct postgres_request request = {};
	u32 requests, is_piped;

	if (connection->state != STATE_IDLE && ((connection->flags & CONNECTION_COPY) || connection->request_left)) {
		u32 left = connection->request_left;

		connection->request_left = left > payload->length ? left - payload->length : 0;
		connection->request_bytes += payload->length;
		return;
	}
	if (!payload->buffer || !load_head(payload, connection, scratch, POSTGRES_BYTES)) {
		count_loss(LOSS_UNREADABLE);
		return;
	}
	/* A TLS handshake follows the SSLRequest. */
	if (!(payload->flags & PAYLOAD_TLS) && scratch->bytes[0] == 0x16 && scratch->bytes[1] == 3) {
		connection->flags |= CONNECTION_TLS;
		connection->protocol = PROTOCOL_UNKNOWN;
		connection->role = ROLE_NONE;
		return;
	}
	/* A startup message, or a password. */
	if (!scratch->bytes[0] || scratch->bytes[0] == 'p')
		return;
#pragma clang loop unroll(disable)
	for (u32 index = 0; index < POSTGRES_MESSAGES; index++) {
		if (!postgres_message(payload, connection, scratch, &request))
			break;
	}
	/* Parameters may hide the Execute after a Bind. */
	requests = request.queries + (request.executes > request.binds ? request.executes : request.binds);
	/* An Execute without Sync or Flush: more requests follow before the response. */
	is_piped = request.last == 'E' && request.at == scratch->total && request.at == payload->length;
	if (connection->state == STATE_PENDING || requests > 1 || is_piped) {
		if (!requests) {
			connection->request_bytes += payload->length;
			return;
		}
		postgres_hand_over(connection, scratch);
		stream_payload(payload, connection, scratch, MAX_CHUNKS * CHUNK_BYTES, 0);
		return;
	}
	if (requests) {
		/* A request before the end of a response: the walk through the response continues. */
		if (connection->state == STATE_IDLE || connection->extra[POSTGRES_MESSAGE_LEFT] == POSTGRES_LOST)
			connection->extra[POSTGRES_MESSAGE_LEFT] = 0;
		begin_request(payload, connection, request.fingerprint, 0, payload->length);
		connection->extra[POSTGRES_SIMPLE] = request.queries;
		connection->request_left = request.left;
		connection->flags &= ~CONNECTION_COPY;
	}
	if (request.named) {
		/* The decoder must know named statements, in case the connection is handed over. */
		connection->extra[POSTGRES_PREPARED] = 1;
		stream_payload(payload, connection, scratch, POSTGRES_BYTES, PAYLOAD_PREPARED);
	}
}

subprogram int postgres_data(struct payload *payload, struct connection *connection, struct scratch *scratch)
{
	if (!payload || !connection || !scratch)
		return 0;
	if (is_request(connection, payload->direction))
		postgres_on_request(payload, connection, scratch);
	else
		postgres_on_response(payload, connection, scratch);
	return 0;
}

#endif
