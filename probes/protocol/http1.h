/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * HTTP/1.0 and 1.1. Part of requests.bpf.c.
 *
 * The kernel tracks one request at a time. Once a connection pipelines a second one, all its payloads go to the ring, and http1-stream.ts
 * counts them.
 */
#ifndef CORAL_PROTOCOL_HTTP1_H
#define CORAL_PROTOCOL_HTTP1_H

#include "protocol/http1-head.h"
#include "requests/payload.h"

/* "HTTP/1.1 200" */
#define HTTP_STATUS_BYTES 12

/*
 * Hands a connection over to the decoder in user space. An open request is emitted as a synthetic record, so that the decoder can match its
 * response.
 */
subprogram int http1_hand_over(struct connection *connection, struct scratch *scratch)
{
	struct payload_record *record;
	u32 end;

	if (!connection || !scratch || (connection->flags & CONNECTION_STREAMED))
		return 0;
	connection->flags |= CONNECTION_STREAMED;
	if (take_request(connection) != STATE_PENDING)
		return 0;
	record = (void *)scratch->record;
	fill_synthetic_record(record, connection);
	__builtin_memcpy(scratch->bytes, connection->head, HEAD_KEPT);
	/* The target ends at the second space, or at the end of what was kept. */
	scratch->at = 0;
#pragma clang loop unroll(disable)
	for (u32 index = 0; index < HEAD_KEPT; index++) {
		if (scratch->bytes[index] == '\r' || !scratch->bytes[index])
			break;
		if (scratch->bytes[index] == ' ' && scratch->at)
			break;
		if (scratch->bytes[index] == ' ')
			scratch->at = 1;
		scratch->end = index + 1;
	}
	end = scratch->end & 127;
	*(u64 *)(scratch->bytes + end) = 0x2e312f5054544820ULL; /* " HTTP/1." */
	*(u64 *)(scratch->bytes + end + 8) = 0x0a0d0a0d31ULL; /* "1", CRLF CRLF */
	record->bytes = end + 13;
	record->length = connection->request_bytes;
	emit_payload(record, connection, sizeof(*record) + end + 13);
	return 0;
}

/* Least bytes of a head that are compared with the previous one. */
#define HEAD_COMPARED 24

/* `words` hold connection->head_bytes bytes of a payload, then zeros. */
static always_inline int is_same_head(const u64 *words, const struct connection *connection)
{
	const u64 *head = (void *)connection->head;

	if ((words[0] ^ head[0]) | (words[1] ^ head[1]) | (words[2] ^ head[2]) | (words[3] ^ head[3]) | (words[4] ^ head[4]) |
	    (words[5] ^ head[5]))
		return 0;
	return connection->head_bytes <= 48 || !((words[6] ^ head[6]) | (words[7] ^ head[7]));
}

/* Keeps the start of a payload: `wanted` bytes, rounded up to words. */
static always_inline void keep_head(struct connection *connection, const u8 *bytes, u32 wanted)
{
	const u64 *words = (void *)bytes;
	u64 *head = (void *)connection->head;

	wanted = (wanted + 7) & ~7U;
	if (wanted < HEAD_COMPARED)
		wanted = HEAD_COMPARED;
	if (wanted > HEAD_KEPT)
		wanted = HEAD_KEPT;
#pragma clang loop unroll(full)
	for (u32 index = 0; index < HEAD_KEPT / 8; index++)
		head[index] = index * 8 < wanted ? words[index] : 0;
	connection->head_bytes = wanted;
}

/* A head that differs from the previous one: learns its name, and checks whether another request follows it. */
subprogram int http1_new_head(struct payload *payload, struct connection *connection, struct scratch *scratch)
{
	u64 fingerprint;
	u32 bytes, is_repeatable, method, end;

	if (!payload || !connection || !scratch)
		return 0;
	fingerprint = scratch->fingerprint;
	method = scratch->method;
	end = scratch->end;
	is_repeatable = end < HEAD_KEPT && !connection->prefix_bytes;
	bytes = payload->length + (connection->prefix_direction == payload->direction ? connection->prefix_bytes : 0);

	if (payload->length > HEAD_BYTES)
		load_head(payload, connection, scratch, LEARN_BYTES);
	if (connection->state == STATE_PENDING || (http1_has_more(scratch) && http1_is_request_next(scratch))) {
		finish_response(connection);
		http1_hand_over(connection, scratch);
		stream_payload(payload, connection, scratch, MAX_CHUNKS * CHUNK_BYTES, 0);
		return 0;
	}
	scratch->fingerprint = fingerprint;
	connection->head_generation = generation_now();
	fingerprint = learn(payload, connection, scratch, LEARN_BYTES);
	begin_request(payload, connection, fingerprint, method, bytes);
	/* Including the character that ends the path. */
	keep_head(connection, scratch->bytes, is_repeatable ? end + 1 : HEAD_KEPT);
	connection->head_fingerprint = fingerprint;
	connection->head_method = method;
	connection->head_payload_bytes = payload->length;
	if (is_repeatable && fingerprint)
		connection->flags |= CONNECTION_REPEATABLE;
	else
		connection->flags &= ~CONNECTION_REPEATABLE;
	return 0;
}

static always_inline void http1_on_request(struct payload *payload, struct connection *connection, struct scratch *scratch)
{
	u32 state = connection->state;
	u32 parsed;

	if (!payload->buffer || !load_head(payload, connection, scratch, HEAD_BYTES)) {
		if (state == STATE_PENDING)
			connection->request_bytes += payload->length;
		else
			count_loss(LOSS_UNREADABLE);
		return;
	}
	parsed = http1_parse(scratch);
	if (parsed == HTTP_WHOLE) {
		http1_new_head(payload, connection, scratch);
		return;
	}
	if (parsed == HTTP_PARTIAL && state != STATE_PENDING) {
		begin_prefix(payload, connection, scratch);
		return;
	}
	/* A body, or the rest of a head. */
	connection->prefix_bytes = 0;
	if (state != STATE_IDLE)
		connection->request_bytes += payload->length;
}

static always_inline u32 http1_status_number(const u8 *text)
{
	return (text[9] - '0') * 100 + (text[10] - '0') * 10 + (text[11] - '0');
}

/* Interim responses (100, 103) are followed by another one. */
static always_inline int http1_is_interim(u32 status)
{
	return status >= 100 && status < 200 && status != 101;
}

static always_inline void http1_status(struct payload *payload, struct connection *connection, const u8 *text)
{
	u32 status = http1_status_number(text);

	if (http1_is_interim(status))
		return;
	if (status < 100 || status > 999) {
		count_loss(LOSS_UNDECODED);
		status = STATUS_NONE;
	}
	if (connection->state == STATE_RESPONDING) {
		/* A second response: what looked like one request was two. Counts the first. */
		u32 bytes = connection->response_bytes;

		connection->response_bytes = bytes > payload->length ? bytes - payload->length : bytes;
		finish_response(connection);
		connection->request_bytes = 0;
		connection->response_bytes = payload->length;
		connection->queue_ns = ~0ULL;
		connection->first_byte_ns = 0;
	}
	begin_response(payload, connection, status);
	if (status == 101 || (connection->method == HTTP_CONNECT && status < 300)) {
		finish_response(connection);
		/* Another protocol follows. After CONNECT it may be any; after 101 it is most likely WebSocket, which is ignored. */
		connection->protocol = status == 101 ? PROTOCOL_IGNORED : PROTOCOL_UNKNOWN;
		connection->role = ROLE_NONE;
		connection->misses = 0;
		connection->flags &= ~CONNECTION_REPEATABLE;
	}
}

/* Bytes of a 101 response that are searched for the new protocol. */
#define HTTP_UPGRADE_BYTES 256

/* True if a 101 response switches to HTTP/2. */
subprogram int http1_is_h2c(struct payload *payload, struct scratch *scratch)
{
	if (!payload || !scratch)
		return 0;
	__builtin_memset(scratch->bytes, 0, HTTP_UPGRADE_BYTES + 8);
	if (!read_bytes(payload, scratch, 0, 0, HTTP_UPGRADE_BYTES))
		return 0;
#pragma clang loop unroll(disable)
	for (u32 index = 0; index < HTTP_UPGRADE_BYTES; index++) {
		if (*(u32 *)(scratch->bytes + index) == 0x0d633268) /* "h2c", CR */
			return 1;
	}
	return 0;
}

/* Interim responses in one payload that are skipped. */
#define HTTP_INTERIM_RESPONSES 4

/*
 * Skips interim responses at the start of scratch->bytes, of which `kept` bytes came with an earlier payload: replaces them with what
 * follows, up to 16 bytes. Returns the number of bytes; 0: nothing follows.
 */
subprogram u32 http1_after_interim(struct payload *payload, struct scratch *scratch, u32 kept)
{
	u32 offset = 0, total;

	if (!payload || !scratch || kept > 16)
		return 0;
#pragma clang loop unroll(disable)
	for (u32 index = 0; index < HTTP_INTERIM_RESPONSES; index++) {
		total = kept + read_bytes(payload, scratch, kept, offset, LEARN_BYTES);
		total &= 2 * LEARN_BYTES - 1;
		*(u64 *)(scratch->bytes + total) = 0;
		scratch->total = total;
		http1_has_more(scratch);
		if (!scratch->at || scratch->at >= total)
			return 0;
		offset += scratch->at - kept;
		kept = 0;
		__builtin_memset(scratch->bytes, 0, 16);
		total = read_bytes(payload, scratch, 0, offset, 16);
		if (total < HTTP_STATUS_BYTES || !is_http1_version(scratch->bytes) ||
		    !http1_is_interim(http1_status_number(scratch->bytes)))
			return total;
	}
	return 0;
}

static always_inline void http1_on_response(struct payload *payload, struct connection *connection, struct scratch *scratch)
{
	u32 kept, total;

	/* Late bytes of a request that a sweep has already counted. */
	if (connection->state == STATE_IDLE)
		return;
	extend_response(payload, connection);
	/* A body need not be readable (sendfile). */
	if (!payload->buffer && connection->state == STATE_RESPONDING)
		return;
	kept = connection->response_prefix_bytes;
	if (kept >= HTTP_STATUS_BYTES)
		kept = 0;
	if (kept)
		__builtin_memcpy(scratch->bytes, connection->response_prefix, 16);
	total = payload->buffer ? read_bytes(payload, scratch, kept, 0, 16) : 0;
	if (!total) {
		count_loss(LOSS_UNREADABLE);
		/* The response has started, with any status. */
		if (connection->state == STATE_PENDING)
			begin_response(payload, connection, STATUS_NONE);
		return;
	}
	total += kept;
	if (total >= HTTP_STATUS_BYTES && connection->state == STATE_PENDING && is_http1_version(scratch->bytes) &&
	    http1_is_interim(http1_status_number(scratch->bytes))) {
		connection->response_prefix_bytes = 0;
		total = http1_after_interim(payload, scratch, kept);
		if (!total)
			return;
	}
	if (total >= HTTP_STATUS_BYTES) {
		connection->response_prefix_bytes = 0;
		if (is_http1_version(scratch->bytes))
			http1_status(payload, connection, scratch->bytes);
		/* The connection preface will identify HTTP/2. */
		if (connection->protocol == PROTOCOL_IGNORED && http1_is_h2c(payload, scratch))
			connection->protocol = PROTOCOL_UNKNOWN;
	} else if (connection->state == STATE_PENDING && scratch->bytes[0] == 'H') {
		__builtin_memcpy(connection->response_prefix, scratch->bytes, 16);
		connection->response_prefix_bytes = total;
	}
}

static always_inline int http1_is_tracked(const struct connection *connection)
{
	return connection->protocol == PROTOCOL_HTTP && !(connection->flags & CONNECTION_STREAMED);
}

/* True if the head at `buffer` equals the previous one. Only for repeatable connections and payloads with at least head_bytes. */
static always_inline int http1_repeats_head(const struct connection *connection, u64 buffer)
{
	u64 words[HEAD_KEPT / 8] = {};
	u32 size = connection->head_bytes;

	return size <= HEAD_KEPT && !bpf_probe_read_user(words, size, (void *)buffer) && is_same_head(words, connection);
}

/* True if a payload may repeat the previous request; http1_repeats_head() compares the bytes. */
static always_inline int http1_may_repeat(const struct connection *connection, u32 first_bytes, u32 length)
{
	return (connection->flags & CONNECTION_REPEATABLE) && connection->state != STATE_PENDING && !connection->prefix_bytes &&
	       length == connection->head_payload_bytes && first_bytes >= connection->head_bytes &&
	       connection->head_generation == generation_now();
}

static always_inline int http1_may_respond(const struct connection *connection, u32 first_bytes)
{
	return connection->state == STATE_PENDING && !connection->response_prefix_bytes && first_bytes >= 16 &&
	       connection->method != HTTP_CONNECT;
}

/* The status in the first 16 bytes of a response; 0: not a response, or another response or protocol follows it. */
static always_inline u32 http1_final_status(u64 first, u64 second)
{
	u32 status = ((u8)(second >> 8) - '0') * 100 + ((u8)(second >> 16) - '0') * 10 + ((u8)(second >> 24) - '0');

	return (first & 0xffffffffffffULL) != 0x312f50545448ULL || status < 200 || status > 999 ? 0 : status; /* HTTP/1 */
}

/* The same for a response in the memory of the process. */
static always_inline u32 http1_status_at(u64 buffer)
{
	u64 words[2];

	return bpf_probe_read_user(words, sizeof(words), (void *)buffer) ? 0 : http1_final_status(words[0], words[1]);
}

static always_inline void http1_repeat_request(struct payload *payload, struct connection *connection)
{
	if (connection->state == STATE_RESPONDING && take_request(connection) == STATE_RESPONDING)
		count_request_inline(connection);
	open_request(payload, connection, connection->head_fingerprint, connection->head_method, payload->length);
}

static always_inline void http1_begin_response(struct payload *payload, struct connection *connection, u32 status)
{
	extend_response(payload, connection);
	begin_response(payload, connection, status);
}

/* True if the fast path may take a payload; otherwise it goes to on_payload(). */
static always_inline int http1_may_take_fast_path(const struct payload *payload, const struct connection *connection)
{
	return http1_is_tracked(connection) && payload->buffer && !is_capturing() &&
	       (!(connection->flags & CONNECTION_TLS) || payload->flags & PAYLOAD_TLS);
}

/* Takes the head of a response. 0: it is not one, and nothing has changed. */
static always_inline int http1_fast_response(struct payload *payload, struct connection *connection)
{
	u32 status = http1_may_respond(connection, payload->first_bytes) ? http1_status_at(payload->buffer) : 0;

	if (!status)
		return 0;
	http1_begin_response(payload, connection, status);
	return 1;
}

/*
 * The fast path for payloads from system calls and TLS libraries: a request that repeats the previous one on its connection, or the head of
 * a response. 0: it is neither, and nothing has changed. All inline: returns are expensive under speculation mitigations. At sockets,
 * http1-socket.h is tried first.
 */
static always_inline int http1_fast_path(struct payload *payload, struct connection *connection)
{
	if (!http1_may_take_fast_path(payload, connection))
		return 0;
	if (!is_request(connection, payload->direction))
		return http1_fast_response(payload, connection);
	if (!http1_may_repeat(connection, payload->first_bytes, payload->length) || !http1_repeats_head(connection, payload->buffer))
		return 0;
	http1_repeat_request(payload, connection);
	return 1;
}

subprogram int http1_data(struct payload *payload, struct connection *connection, struct scratch *scratch)
{
	if (!payload || !connection || !scratch)
		return 0;
	if (is_request(connection, payload->direction))
		http1_on_request(payload, connection, scratch);
	else
		http1_on_response(payload, connection, scratch);
	return 0;
}

#endif
