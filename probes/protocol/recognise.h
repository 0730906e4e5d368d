/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Recognises the protocol of a connection by its bytes, never by its port, and which side is the server. Part of requests.bpf.c. */
#ifndef CORAL_PROTOCOL_RECOGNISE_H
#define CORAL_PROTOCOL_RECOGNISE_H

#include "protocol/classify.h"
#include "protocol/http1.h"
#include "protocol/http2-frame.h"
#include "protocol/postgres.h"
#include "protocol/redis.h"

/* A connection is ignored after this many unknown payloads. */
#define MAX_MISSES 8
/* A shorter payload may be the start of something: it is kept until more arrives. */
#define ENOUGH_BYTES 16
/* Result of protocol_of() besides enum message_kind: the start of a request head. */
#define KIND_PARTIAL 9

/* A record of TLS 1.0 to 1.3. */
static always_inline int is_tls_record(const u8 *bytes, u32 total)
{
	return total >= 3 && (bytes[0] & 0xfc) == 0x14 && bytes[1] == 3 && bytes[2] <= 4 && (total < 5 || big16(bytes + 3) <= 0x4800);
}

/* PROTOCOL_* of scratch->bytes; scratch->at becomes the kind of message. PROTOCOL_UNKNOWN: none matches. */
subprogram u32 protocol_of(struct payload *payload, struct connection *connection, struct scratch *scratch)
{
	u32 total, length, kind, is_partial = 0;
	const u8 *bytes;

	if (!payload || !connection || !scratch)
		return PROTOCOL_UNKNOWN;
	bytes = scratch->bytes;
	total = scratch->total;
	length = payload->length + connection->prefix_bytes;
	scratch->at = KIND_REQUEST;
	if (total >= 14 && *(u64 *)bytes == 0x5448202a20495250ULL) /* PRI * HT */
		return PROTOCOL_HTTP2;
	if (total >= 8 && is_http1_version(bytes) && bytes[6] == '.') {
		scratch->at = KIND_RESPONSE;
		return PROTOCOL_HTTP;
	}
	if (bytes[0] >= 'A' && bytes[0] <= 'Z') {
		kind = http1_parse(scratch);
		scratch->at = KIND_REQUEST;
		if (kind == HTTP_WHOLE)
			return PROTOCOL_HTTP;
		is_partial = kind == HTTP_PARTIAL;
	}
	kind = redis_is_request(payload, connection, scratch);
	scratch->at = KIND_REQUEST;
	if (kind)
		return PROTOCOL_REDIS;
	if (postgres_is_request(bytes, total, length))
		return PROTOCOL_POSTGRES;
	kind = mysql_kind(bytes, total, length);
	if (kind) {
		scratch->at = kind;
		return PROTOCOL_MYSQL;
	}
	kind = mongodb_kind(bytes, total);
	if (kind) {
		scratch->at = kind;
		return PROTOCOL_MONGODB;
	}
	scratch->at = KIND_REQUEST;
	if (memcached_kind(bytes, total))
		return PROTOCOL_MEMCACHED;
	/* Before HTTP/2: the frame type is where DNS has its message id. */
	kind = dns_stream_kind(bytes, total, length);
	if (kind) {
		scratch->at = kind;
		return PROTOCOL_DNS;
	}
	kind = http2_kind(scratch);
	if (kind) {
		scratch->at = kind;
		return kind == HTTP2_SIDE_UNKNOWN ? PROTOCOL_UNKNOWN : PROTOCOL_HTTP2;
	}
	if (kafka_kind(bytes, total, length))
		return PROTOCOL_KAFKA;
	scratch->at = is_partial ? KIND_PARTIAL : KIND_NONE;
	return PROTOCOL_UNKNOWN;
}

/* Counts a payload of an unknown protocol. */
static always_inline void count_miss(struct connection *connection)
{
	if (++connection->misses >= MAX_MISSES) {
		connection->protocol = PROTOCOL_IGNORED;
		count_loss(LOSS_UNKNOWN_PROTOCOL);
	}
}

/* 1: the protocol of the connection is known from now on. */
subprogram u32 recognise(struct payload *payload, struct connection *connection, struct scratch *scratch)
{
	struct controls *control = controls_now();
	u32 total, protocol;

	if (!payload || !connection || !scratch)
		return 0;
	if (bpf_map_lookup_elem(&own_processes, &payload->tgid)) {
		connection->protocol = PROTOCOL_IGNORED;
		return 0;
	}
	if (connection->prefix_bytes && connection->prefix_direction != payload->direction) {
		connection->prefix_bytes = 0;
		connection->misses++;
	}
	total = payload->buffer ? load_head(payload, connection, scratch, HEAD_BYTES) : 0;
	if (!total) {
		count_loss(LOSS_UNREADABLE);
		connection->prefix_bytes = 0;
		count_miss(connection);
		return 0;
	}
	if (!(payload->flags & PAYLOAD_TLS) && is_tls_record(scratch->bytes, total)) {
		connection->flags |= CONNECTION_TLS;
		return 0;
	}
	protocol = protocol_of(payload, connection, scratch);
	if (protocol == PROTOCOL_UNKNOWN) {
		u32 can_wait = total < ENOUGH_BYTES || (total < HEAD_KEPT && scratch->at == KIND_PARTIAL);

		if (can_wait && connection->misses < MAX_MISSES) {
			begin_prefix(payload, connection, scratch);
			return 0;
		}
		connection->prefix_bytes = 0;
		/* HTTP/2 bodies of streams that started before Coral: HEADERS will follow. */
		if (scratch->at == HTTP2_SIDE_UNKNOWN && connection->deferred_misses < 255) {
			connection->deferred_misses++;
			return 0;
		}
		count_miss(connection);
		return 0;
	}
	if (control && (control->skipped_protocols | control->disabled_protocols) & 1U << (protocol & 31)) {
		connection->protocol = PROTOCOL_IGNORED;
		if (!(control->disabled_protocols & 1U << (protocol & 31)))
			count_loss(LOSS_SAMPLED_OUT);
		return 0;
	}
	connection->protocol = protocol;
	connection->tgid = payload->tgid;
	connection->role = (payload->direction == RECEIVED) == (scratch->at == KIND_REQUEST) ? ROLE_SERVER : ROLE_CLIENT;
	/* The stamp was taken for the other side, before the role was known. */
	if (connection->role != connection->side)
		connection->arrival_ns = 0;
	if (protocol != PROTOCOL_HTTP && protocol != PROTOCOL_REDIS && protocol != PROTOCOL_POSTGRES && protocol != PROTOCOL_HTTP2)
		connection->flags |= CONNECTION_STREAMED;
	return 1;
}

#endif
