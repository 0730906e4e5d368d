/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Databases, caches and DNS by the first bytes of a payload: cheap checks, the same as in src/traffic/protocols/recognise.ts, on at least 32 bytes of
 * memory, `total` of which are the payload's, of `length` in all. All return 1 when it asks, 2 when it answers, 0 when it is something else.
 */
#ifndef CORAL_PROTOCOL_CLASSIFY_H
#define CORAL_PROTOCOL_CLASSIFY_H

#include "core/bpf.h"

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

/* Header of a DNS query or answer with one question. 1: asks, 2: answers. */
static always_inline u32 dns_kind(const u8 *header)
{
	if ((header[2] & 0x78) || (header[3] & 0x40) || big16(header + 4) != 1 || big16(header + 6) > 64 || big16(header + 8) > 64)
		return 0;
	return header[2] & 0x80 ? 2 : 1;
}

/* Over TCP messages have their length before them. Of several at once the first must be a query without answers, for a name. */
static always_inline u32 dns_stream_kind(const u8 *bytes, u32 total, u32 length)
{
	u32 size = big16(bytes), kind;

	if (total < 19 || size < 17 || size + 2 > length)
		return 0;
	kind = dns_kind(bytes + 2);
	if (size + 2 == length)
		return kind;
	return kind == 1 && !(bytes[5] & 15) && !big16(bytes + 8) && !big16(bytes + 10) && big16(bytes + 12) <= 2 && bytes[14] &&
	       bytes[14] < 64;
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
	/* COM_PING: nothing but its number */
	if (bytes[4] == 0x0e)
		return size == 1;
	/* COM_QUERY, COM_STMT_PREPARE: text, a comment before it, or (MySQL 8) no attributes of one set */
	if ((bytes[4] == 3 || bytes[4] == 0x16) && total >= 10) {
		if (bytes[5] == '/' && bytes[6] == '*')
			return 1;
		if (!bytes[5] && bytes[6] == 1)
			return is_letter(bytes[7]) && is_letter(bytes[8]) ? 1 : 0;
		return is_letter(bytes[5]) && is_letter(bytes[6]) ? 1 : 0;
	}
	/* COM_STMT_EXECUTE: statement, no cursor, one iteration */
	return bytes[4] == 0x17 && total >= 14 && bytes[10] == 1 && !bytes[11] && !bytes[12] ? 1 : 0;
}

/* Keys may begin with any byte that ends no word: some clients put numbers into them as they are. */
static always_inline int is_memcached_key(u8 character)
{
	return character && character != ' ' && character != '\r' && character != '\n';
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
		return is_memcached_key(bytes[4]);
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
	if (bytes[0] == 'm' && (bytes[1] == 'g' || bytes[1] == 's' || bytes[1] == 'd' || bytes[1] == 'a') && bytes[2] == ' ' &&
	    is_memcached_key(bytes[3]))
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

#endif
