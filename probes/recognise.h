/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Which protocol a connection speaks, by its bytes and never by its port; and who asks on it. */
#ifndef CORAL_RECOGNISE_H
#define CORAL_RECOGNISE_H

#include "http1.h"
#include "http2-frame.h"
#include "postgres.h"
#include "redis.h"

/* After so many payloads that are nobody's, a connection is ignored. */
#define MAX_MISSES 8
/* A beginning shorter than this may become something. */
#define ENOUGH_BYTES 16
/* protocol_of(), besides 1 and 2: the beginning of a request head. */
#define KIND_PARTIAL 9

static always_inline u32 big16(const u8 *at)
{
	return __builtin_bswap16(*(u16 *)at);
}

static always_inline u32 big32(const u8 *at)
{
	return __builtin_bswap32(*(u32 *)at);
}

static always_inline int is_letter(u8 character)
{
	return (u8)((character | 32) - 'a') < 26;
}

/* A record of TLS 1.0 to 1.3. */
static always_inline int is_tls_record(const u8 *bytes, u32 total)
{
	return total >= 3 && (bytes[0] & 0xfc) == 0x14 && bytes[1] == 3 && bytes[2] <= 4 && (total < 5 || big16(bytes + 3) <= 0x4800);
}

/* Header of a DNS query or answer with one question. 1: asks, 2: answers. */
static always_inline u32 dns_kind(const u8 *header)
{
	if ((header[2] & 0x78) || (header[3] & 0x40) || big16(header + 4) != 1 || big16(header + 6) > 64 || big16(header + 8) > 64)
		return 0;
	return header[2] & 0x80 ? 2 : 1;
}

static always_inline u32 mysql_kind(const u8 *bytes, u32 total, u32 length)
{
	u32 size = bytes[0] | bytes[1] << 8 | bytes[2] << 16;

	if (total < 5 || bytes[3] != 0)
		return 0;
	/* The greeting: protocol 10, then the version in digits. */
	if (bytes[4] == 10 && total >= 8 && (u8)(bytes[5] - '0') < 10 && size >= 40 && size < 512)
		return 2;
	if (size + 4 != length)
		return 0;
	/* COM_QUERY, COM_STMT_PREPARE: text */
	if ((bytes[4] == 3 || bytes[4] == 0x16) && total >= 10)
		return is_letter(bytes[5]) && is_letter(bytes[6]) ? 1 : 0;
	/* COM_STMT_EXECUTE: statement, no cursor, one iteration */
	return bytes[4] == 0x17 && total >= 14 && bytes[10] == 1 && !bytes[11] && !bytes[12] ? 1 : 0;
}

static always_inline u32 memcached_kind(const u8 *bytes, u32 total)
{
	u32 word = *(u32 *)bytes;

	if (bytes[0] == 0x80 && total >= 24)
		return bytes[1] < 0x40 && !bytes[5] && !bytes[6] && big32(bytes + 8) >= big16(bytes + 2) + bytes[4] ? 1 : 0;
	if (total < 6)
		return 0;
	switch (word) {
	case 0x20746567: /* "get " */
	case 0x20746573: /* "set " */
	case 0x20646461: /* "add " */
	case 0x20736163: /* "cas " */
	case 0x20746167: /* "gat " */
		return bytes[4] > ' ' ? 1 : 0;
	case 0x73746567: /* gets */
	case 0x73746167: /* gats */
		return bytes[4] == ' ' ? 1 : 0;
	case 0x72636e69: /* incr */
	case 0x72636564: /* decr */
		return bytes[4] == ' ' ? 1 : 0;
	case 0x656c6564: /* dele, te */
		return *(u16 *)(bytes + 4) == 0x6574 && bytes[6] == ' ' ? 1 : 0;
	case 0x63756f74: /* touc, h */
		return bytes[4] == 'h' && bytes[5] == ' ' ? 1 : 0;
	case 0x6c706572: /* repl, ace */
		return *(u32 *)(bytes + 4) == 0x20656361 ? 1 : 0;
	case 0x65707061: /* appe, nd */
		return *(u16 *)(bytes + 4) == 0x646e && bytes[6] == ' ' ? 1 : 0;
	case 0x70657270: /* prep, end */
		return *(u32 *)(bytes + 4) == 0x20646e65 ? 1 : 0;
	case 0x74617473: /* stat, s */
		return bytes[4] == 's' && (bytes[5] == ' ' || bytes[5] == '\r') ? 1 : 0;
	}
	/* Meta commands: "mg key". */
	if (bytes[0] == 'm' && (bytes[1] == 'g' || bytes[1] == 's' || bytes[1] == 'd' || bytes[1] == 'a') && bytes[2] == ' ' && bytes[3] > ' ')
		return 1;
	return 0;
}

static always_inline u32 mongodb_kind(const u8 *bytes, u32 total)
{
	u32 size = *(u32 *)bytes, operation = *(u32 *)(bytes + 12);

	if (total < 16 || size < 21 || size > 48 << 20)
		return 0;
	if (operation == 1)
		return 2;
	if (operation != 2013 && operation != 2012 && operation != 2004)
		return 0;
	return *(u32 *)(bytes + 8) ? 2 : 1;
}

static always_inline u32 kafka_kind(const u8 *bytes, u32 total, u32 length)
{
	u32 size = big32(bytes), client = big16(bytes + 12);

	if (total < 14 || size < 10 || size > 100 << 20 || size + 4 < length)
		return 0;
	if (big16(bytes + 4) > 92 || big16(bytes + 6) > 20)
		return 0;
	if (client == 0xffff)
		return 1;
	return client && client < 256 && client + 10 <= size && bytes[14] > ' ' && bytes[14] < 127 ? 1 : 0;
}

/* PROTOCOL_* of scratch->bytes, with the kind of message in scratch->at: 1 asks, 2 answers. PROTOCOL_UNKNOWN: nobody's. */
subprogram u32 protocol_of(struct payload *payload, struct connection *connection, struct scratch *scratch)
{
	u32 total, length, kind, is_partial = 0;
	const u8 *bytes;

	if (!payload || !connection || !scratch)
		return PROTOCOL_UNKNOWN;
	bytes = scratch->bytes;
	total = scratch->total;
	length = payload->length + connection->prefix_bytes;
	scratch->at = 1;
	if (total >= 14 && *(u64 *)bytes == 0x5448202a20495250ULL) /* PRI * HT */
		return PROTOCOL_HTTP2;
	if (total >= 8 && is_http1_version(bytes) && bytes[6] == '.') {
		scratch->at = 2;
		return PROTOCOL_HTTP;
	}
	if (bytes[0] >= 'A' && bytes[0] <= 'Z') {
		kind = http1_parse(scratch);
		scratch->at = 1;
		if (kind == HTTP_WHOLE)
			return PROTOCOL_HTTP;
		is_partial = kind == HTTP_PARTIAL;
	}
	kind = redis_kind(payload, connection, scratch);
	scratch->at = 1;
	if (kind)
		return PROTOCOL_REDIS;
	kind = postgres_kind(bytes, total, length);
	if (kind) {
		scratch->at = kind;
		return PROTOCOL_POSTGRES;
	}
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
	scratch->at = 1;
	if (memcached_kind(bytes, total))
		return PROTOCOL_MEMCACHED;
	kind = http2_kind(scratch);
	if (kind) {
		scratch->at = kind;
		return kind == HTTP2_LATER ? PROTOCOL_UNKNOWN : PROTOCOL_HTTP2;
	}
	if (kafka_kind(bytes, total, length))
		return PROTOCOL_KAFKA;
	if (total >= 19 && big16(bytes) + 2 == length) {
		scratch->at = dns_kind(bytes + 2);
		if (scratch->at)
			return PROTOCOL_DNS;
	}
	scratch->at = is_partial ? KIND_PARTIAL : 0;
	return PROTOCOL_UNKNOWN;
}

/* 1 when the connection's protocol is known from now on. */
subprogram u32 recognise(struct payload *payload, struct connection *connection, struct scratch *scratch)
{
	struct controls *control = controls_now();
	u32 total, protocol;

	if (!payload || !connection || !scratch || !payload->buffer)
		return 0;
	if (bpf_map_lookup_elem(&own_processes, &payload->tgid)) {
		connection->protocol = PROTOCOL_IGNORED;
		return 0;
	}
	if (connection->prefix_bytes && connection->prefix_direction != payload->direction) {
		connection->prefix_bytes = 0;
		connection->misses++;
	}
	total = load_head(payload, connection, scratch, HEAD_BYTES);
	if (!total) {
		count_loss(LOSS_UNREADABLE);
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
		/* Bodies of HTTP/2 that began before Coral: HEADERS will come. */
		if (scratch->at == HTTP2_LATER && connection->patience < 255) {
			connection->patience++;
			return 0;
		}
		if (++connection->misses >= MAX_MISSES) {
			connection->protocol = PROTOCOL_IGNORED;
			count_loss(LOSS_UNKNOWN_PROTOCOL);
		}
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
	connection->role = (payload->direction == RECEIVED) == (scratch->at == 1) ? ROLE_SERVER : ROLE_CLIENT;
	/* Stamped for the other side before the role was known. */
	if (connection->role != connection->side)
		connection->arrival_ns = 0;
	if (protocol != PROTOCOL_HTTP && protocol != PROTOCOL_REDIS && protocol != PROTOCOL_POSTGRES && protocol != PROTOCOL_HTTP2)
		connection->flags |= CONNECTION_STREAMED;
	return 1;
}

#endif
