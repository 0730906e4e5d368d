/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Recognises databases, caches and DNS by the first bytes of a payload, with the same cheap checks as recognise.ts. Part of requests.bpf.c.
 *
 * `bytes` points to at least 32 readable bytes, of which `total` are the payload's; `length` is the length of the whole payload.
 */
#ifndef CORAL_PROTOCOL_CLASSIFY_H
#define CORAL_PROTOCOL_CLASSIFY_H

#include "core/bpf.h"

enum message_kind {
	KIND_NONE = 0, /* another protocol */
	KIND_REQUEST = 1,
	KIND_RESPONSE = 2,
};

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

/* `header` of a DNS query or response with one question. */
static always_inline u32 dns_kind(const u8 *header)
{
	if ((header[2] & 0x78) || (header[3] & 0x40) || big16(header + 4) != 1 || big16(header + 6) > 64 || big16(header + 8) > 64)
		return KIND_NONE;
	return header[2] & 0x80 ? KIND_RESPONSE : KIND_REQUEST;
}

/* Over TCP a length precedes each message. If the payload holds more than one message, the first must be a query without answers. */
static always_inline u32 dns_stream_kind(const u8 *bytes, u32 total, u32 length)
{
	u32 size = big16(bytes), kind;

	if (total < 19 || size < 17 || size + 2 > length)
		return KIND_NONE;
	kind = dns_kind(bytes + 2);
	if (size + 2 == length)
		return kind;
	return kind == KIND_REQUEST && !(bytes[5] & 15) && !big16(bytes + 8) && !big16(bytes + 10) && big16(bytes + 12) <= 2 && bytes[14] &&
	       bytes[14] < 64;
}

static always_inline u32 mysql_kind(const u8 *bytes, u32 total, u32 length)
{
	u32 size = bytes[0] | bytes[1] << 8 | bytes[2] << 16;

	if (total < 5 || bytes[3] != 0)
		return KIND_NONE;
	/* The server's greeting: protocol 10, then the version in digits. */
	if (bytes[4] == 10 && total >= 8 && (u8)(bytes[5] - '0') < 10 && size >= 40 && size < 512)
		return KIND_RESPONSE;
	if (size + 4 != length)
		return KIND_NONE;
	/* COM_PING: nothing but its number */
	if (bytes[4] == 0x0e)
		return size == 1 ? KIND_REQUEST : KIND_NONE;
	/* COM_QUERY, COM_STMT_PREPARE: text, possibly after a comment or (MySQL 8) after an empty set of attributes */
	if ((bytes[4] == 3 || bytes[4] == 0x16) && total >= 10) {
		if (bytes[5] == '/' && bytes[6] == '*')
			return KIND_REQUEST;
		if (!bytes[5] && bytes[6] == 1)
			return is_letter(bytes[7]) && is_letter(bytes[8]) ? KIND_REQUEST : KIND_NONE;
		return is_letter(bytes[5]) && is_letter(bytes[6]) ? KIND_REQUEST : KIND_NONE;
	}
	/* COM_STMT_EXECUTE: statement id, no cursor, one iteration */
	return bytes[4] == 0x17 && total >= 14 && bytes[10] == 1 && !bytes[11] && !bytes[12] ? KIND_REQUEST : KIND_NONE;
}

/* A key may start with any byte that does not end a word: some clients put binary numbers into keys. */
static always_inline int is_memcached_key(u8 character)
{
	return character && character != ' ' && character != '\r' && character != '\n';
}

static always_inline u32 memcached_kind(const u8 *bytes, u32 total)
{
	u32 word = *(u32 *)bytes;

	if (bytes[0] == 0x80 && total >= 24)
		return bytes[1] < 0x40 && !bytes[5] && !bytes[6] && big32(bytes + 8) >= big16(bytes + 2) + bytes[4] ? KIND_REQUEST
														    : KIND_NONE;
	if (total < 6)
		return KIND_NONE;
	switch (word) {
	case 0x20746567: /* "get " */
	case 0x20746573: /* "set " */
	case 0x20646461: /* "add " */
	case 0x20736163: /* "cas " */
	case 0x20746167: /* "gat " */
		return is_memcached_key(bytes[4]) ? KIND_REQUEST : KIND_NONE;
	case 0x73746567: /* gets */
	case 0x73746167: /* gats */
		return bytes[4] == ' ' ? KIND_REQUEST : KIND_NONE;
	case 0x72636e69: /* incr */
	case 0x72636564: /* decr */
		return bytes[4] == ' ' ? KIND_REQUEST : KIND_NONE;
	case 0x656c6564: /* dele, te */
		return *(u16 *)(bytes + 4) == 0x6574 && bytes[6] == ' ' ? KIND_REQUEST : KIND_NONE;
	case 0x63756f74: /* touc, h */
		return bytes[4] == 'h' && bytes[5] == ' ' ? KIND_REQUEST : KIND_NONE;
	case 0x6c706572: /* repl, ace */
		return *(u32 *)(bytes + 4) == 0x20656361 ? KIND_REQUEST : KIND_NONE;
	case 0x65707061: /* appe, nd */
		return *(u16 *)(bytes + 4) == 0x646e && bytes[6] == ' ' ? KIND_REQUEST : KIND_NONE;
	case 0x70657270: /* prep, end */
		return *(u32 *)(bytes + 4) == 0x20646e65 ? KIND_REQUEST : KIND_NONE;
	case 0x74617473: /* stat, s */
		return bytes[4] == 's' && (bytes[5] == ' ' || bytes[5] == '\r') ? KIND_REQUEST : KIND_NONE;
	}
	/* Meta commands: "mg key". */
	if (bytes[0] == 'm' && (bytes[1] == 'g' || bytes[1] == 's' || bytes[1] == 'd' || bytes[1] == 'a') && bytes[2] == ' ' &&
	    is_memcached_key(bytes[3]))
		return KIND_REQUEST;
	return KIND_NONE;
}

static always_inline u32 mongodb_kind(const u8 *bytes, u32 total)
{
	u32 size = *(u32 *)bytes, operation = *(u32 *)(bytes + 12);

	if (total < 16 || size < 21 || size > 48 << 20)
		return KIND_NONE;
	if (operation == 1)
		return KIND_RESPONSE;
	if (operation != 2013 && operation != 2012 && operation != 2004)
		return KIND_NONE;
	return *(u32 *)(bytes + 8) ? KIND_RESPONSE : KIND_REQUEST;
}

static always_inline u32 kafka_kind(const u8 *bytes, u32 total, u32 length)
{
	u32 size = big32(bytes), client = big16(bytes + 12);

	if (total < 14 || size < 10 || size > 100 << 20 || size + 4 < length)
		return KIND_NONE;
	if (big16(bytes + 4) > 92 || big16(bytes + 6) > 20)
		return KIND_NONE;
	if (client == 0xffff)
		return KIND_REQUEST;
	return client && client < 256 && client + 10 <= size && bytes[14] > ' ' && bytes[14] < 127 ? KIND_REQUEST : KIND_NONE;
}

#endif
