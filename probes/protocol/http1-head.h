/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The text of an HTTP/1 head: method, path, version, and the fingerprint of a path. Knows nothing of connections. Part of requests.bpf.c;
 * http1-head.ts and route-template.ts do the same in user space.
 */
#ifndef CORAL_PROTOCOL_HTTP1_HEAD_H
#define CORAL_PROTOCOL_HTTP1_HEAD_H

#include "requests/request-table.h"

/* request_key.method. For HTTP_OTHER only the LEARN record has the name. */
enum http_method {
	HTTP_GET = 1,
	HTTP_POST = 2,
	HTTP_PUT = 3,
	HTTP_DELETE = 4,
	HTTP_HEAD = 5,
	HTTP_PATCH = 6,
	HTTP_OPTIONS = 7,
	HTTP_CONNECT = 8,
	HTTP_TRACE = 9,
	HTTP_OTHER = 10,
};

enum http_parse {
	HTTP_NO_HEAD = 0,
	HTTP_PARTIAL = 1,
	HTTP_WHOLE = 2,
};

/* Most bytes of a path that are hashed; the rest does not name a request. */
#define HTTP_PATH_BYTES 112
#define HTTP_METHOD_BYTES 16

#define CHAR_DIGIT 1
#define CHAR_HEX 2
#define CHAR_LETTER 4
#define CHAR_DASH 8
#define CHAR_OTHER 16
#define CHAR_DOT 32
#define CHAR_END 64
#define CHAR_SLASH 128

/* CHAR_* of each byte, 16 in a row. */
/* clang-format off */
const volatile u8 character_kinds[256] = {
	64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64,
	64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64,
	64, 16, 16, 64, 16, 16, 16, 16, 16, 16, 16, 16, 16, 8, 32, 128,
	1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 16, 64, 16, 16, 16, 64,
	16, 2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4, 4, 4, 4,
	4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 16, 16, 16, 16, 16,
	16, 2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4, 4, 4, 4,
	4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 16, 16, 16, 16, 64,
	16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16,
	16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16,
	16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16,
	16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16,
	16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16,
	16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16,
	16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16,
	16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16,
};
/* clang-format on */

/* Adds a path segment to the fingerprint: its hash, or a constant if it is an id. Masks no segment that route-template.ts keeps. */
subprogram int http1_end_segment(struct scratch *scratch)
{
	struct path_parser *path;
	u64 added;
	u32 kinds, digits, length;

	if (!scratch)
		return 0;
	path = &scratch->path;
	added = path->segment;
	kinds = path->kinds;
	digits = path->digits;
	length = path->length;
	if (kinds == CHAR_DIGIT && length > 1) {
		added = MIX_PRIME;
	} else if (kinds == CHAR_DIGIT) {
		/* A version number is part of the name: api/2. */
		switch (path->previous) {
		case 0xe74fc019056aae07ULL: /* api */
		case 0x4cb66f1fbfb4e1d7ULL: /* rest */
		case 0xbb62c62c9808ea37ULL: /* version */
		case 0x691210194edd8d02ULL: /* ver */
		case 0xaf63eb4c86020609ULL: /* v */
			break;
		default:
			added = MIX_PRIME;
		}
	} else if (digits >= 3 && !(kinds & ~(CHAR_DIGIT | CHAR_HEX)) && length >= 8) {
		added = MIX_PRIME;
	} else if (digits >= 4 && !(kinds & ~(CHAR_DIGIT | CHAR_HEX | CHAR_DASH)) && length == 36) {
		added = MIX_PRIME;
	} else if (digits >= 4 && !(kinds & ~(CHAR_DIGIT | CHAR_HEX | CHAR_LETTER)) &&
		   (length >= 20 || (digits >= 5 && digits * 2 >= length))) {
		added = MIX_PRIME;
	}
	scratch->fingerprint = mix(scratch->fingerprint, added);
	path->previous = path->segment;
	path->segment = HASH_SEED;
	path->kinds = 0;
	path->digits = 0;
	path->length = 0;
	return 0;
}

/*
 * Hashes the path at scratch->at into scratch->fingerprint; scratch->end becomes its end. The state of the loop is in memory: in registers,
 * the verifier would track every combination.
 */
subprogram int http1_path(struct scratch *scratch)
{
	volatile struct path_parser *path;
	const u8 *text;
	u32 begin;

	if (!scratch)
		return 0;
	begin = scratch->at & 31;
	text = scratch->bytes + begin;
	path = &scratch->path;
	path->segment = HASH_SEED;
	path->previous = 0;
	path->kinds = 0;
	path->digits = 0;
	path->length = 0;
	scratch->end = begin + HTTP_PATH_BYTES;
#pragma clang loop unroll(disable)
	for (u32 index = 0; index < HTTP_PATH_BYTES; index++) {
		u8 character = text[index];
		u32 kind = character_kinds[character];

		if (kind & (CHAR_END | CHAR_SLASH)) {
			http1_end_segment(scratch);
			if (kind & CHAR_END) {
				scratch->end = begin + index;
				break;
			}
			continue;
		}
		path->segment = (path->segment ^ character) * HASH_PRIME;
		path->kinds |= kind;
		path->digits += kind & CHAR_DIGIT;
		path->length++;
	}
	scratch->fingerprint = mix(scratch->fingerprint, path->segment);
	return 0;
}

/* HTTP_* of the method at the start of scratch->bytes, 0 if it is none of them; scratch->at becomes the start of the target. */
static always_inline u32 http1_method(struct scratch *scratch)
{
	u64 word = *(u64 *)scratch->bytes;

	/* Methods and the space after them as little-endian words. */
	if ((u32)word == 0x20544547) { /* GET */
		scratch->at = 4;
		return HTTP_GET;
	}
	if ((word & 0xffffffffffULL) == 0x2054534f50ULL) { /* POST */
		scratch->at = 5;
		return HTTP_POST;
	}
	if ((u32)word == 0x20545550) { /* PUT */
		scratch->at = 4;
		return HTTP_PUT;
	}
	if ((word & 0xffffffffffffffULL) == 0x204554454c4544ULL) { /* DELETE */
		scratch->at = 7;
		return HTTP_DELETE;
	}
	if ((word & 0xffffffffffULL) == 0x2044414548ULL) { /* HEAD */
		scratch->at = 5;
		return HTTP_HEAD;
	}
	if ((word & 0xffffffffffffULL) == 0x204843544150ULL) { /* PATCH */
		scratch->at = 6;
		return HTTP_PATCH;
	}
	if (word == 0x20534e4f4954504fULL) { /* OPTIONS */
		scratch->at = 8;
		return HTTP_OPTIONS;
	}
	if (word == 0x205443454e4e4f43ULL) { /* CONNECT */
		scratch->at = 8;
		return HTTP_CONNECT;
	}
	if ((word & 0xffffffffffffULL) == 0x204543415254ULL) { /* TRACE */
		scratch->at = 6;
		return HTTP_TRACE;
	}
	return 0;
}

/*
 * Any other method in capital letters, such as PROPFIND. scratch->at becomes the start of the target; 0: not a method; total: incomplete.
 */
subprogram int http1_token(struct scratch *scratch)
{
	u64 hash = HASH_SEED;
	u32 at = 0;

	if (!scratch)
		return 0;

#pragma clang loop unroll(disable)
	for (u32 index = 0; index < HTTP_METHOD_BYTES; index++) {
		u8 character = scratch->bytes[index];

		if (index >= scratch->total) {
			at = index;
			break;
		}
		if (character == ' ' && index >= 3) {
			at = index + 1;
			break;
		}
		if ((character < 'A' || character > 'Z') && character != '-')
			break;
		hash = (hash ^ character) * HASH_PRIME;
	}
	scratch->fingerprint = hash;
	scratch->at = at;
	return 0;
}

static always_inline int is_http1_version(const u8 *text)
{
	return *(u32 *)text == 0x50545448 && *(u16 *)(text + 4) == 0x312f; /* HTTP, /1 */
}

/* HTTP_WHOLE if scratch->bytes start with a request head; scratch->fingerprint and scratch->method are set then. */
subprogram u32 http1_parse(struct scratch *scratch)
{
	u32 found, end;
	u8 first;

	if (!scratch)
		return HTTP_NO_HEAD;
	found = http1_method(scratch);

	if (!found) {
		http1_token(scratch);
		if (!scratch->at)
			return HTTP_NO_HEAD;
		if (scratch->at >= scratch->total)
			return HTTP_PARTIAL;
		found = HTTP_OTHER;
	} else {
		scratch->fingerprint = mix(HASH_SEED, found);
	}
	scratch->method = found;
	if (scratch->at >= scratch->total)
		return HTTP_PARTIAL;
	first = scratch->bytes[scratch->at & 31];
	/* The target of CONNECT is a host. NATS has a CONNECT too, followed by JSON. */
	if (found == HTTP_CONNECT ? first == '{' : first != '/' && first != '*' && first != 'h' && first != 'H')
		return HTTP_NO_HEAD;
	http1_path(scratch);
	end = scratch->end;
	if (end >= scratch->total)
		return scratch->total < HEAD_KEPT ? HTTP_PARTIAL : HTTP_WHOLE;
	end &= 255;
	if (scratch->bytes[end] == ' ' && scratch->total >= end + 7)
		return is_http1_version(scratch->bytes + end + 1) ? HTTP_WHOLE : HTTP_NO_HEAD;
	/* A query string hides the version. Unknown methods are accepted only if the version was seen. */
	return found == HTTP_OTHER ? HTTP_NO_HEAD : HTTP_WHOLE;
}

/* Non-zero if an empty line (CRLF CRLF) covers this position of scratch->bytes; scratch->at becomes the position after it. */
subprogram u32 http1_empty_line(struct scratch *scratch, u32 position)
{
	u8 *at;
	u32 end = 0;

	if (!scratch)
		return 0;
	at = scratch->bytes + (position & (2 * LEARN_BYTES - 1));
	if (*(u32 *)(at - 3) == 0x0a0d0a0d)
		end = position + 1;
	else if (*(u32 *)(at - 2) == 0x0a0d0a0d)
		end = position + 2;
	else if (*(u32 *)(at - 1) == 0x0a0d0a0d)
		end = position + 3;
	else if (*(u32 *)at == 0x0a0d0a0d)
		end = position + 4;
	scratch->at = end;
	return end;
}

/*
 * Non-zero if bytes follow the first head in scratch->bytes; scratch->at becomes their start. An empty line is 4 bytes long, so looking at
 * every fourth position finds it.
 */
subprogram u32 http1_has_more(struct scratch *scratch)
{
	u32 total;

	if (!scratch)
		return 0;
	total = scratch->total;
	scratch->at = 0;
#pragma clang loop unroll(disable)
	for (u32 position = 12; position < LEARN_BYTES; position += 4) {
		if (position >= total)
			break;
		if (scratch->bytes[position] <= '\r' && http1_empty_line(scratch, position))
			break;
	}
	return *(volatile u32 *)&scratch->at + 4 < total && *(volatile u32 *)&scratch->at;
}

/* True if the bytes at scratch->at look like the start of a request head. */
static always_inline int http1_is_request_next(const struct scratch *scratch)
{
	const u8 *at = scratch->bytes + (scratch->at & (2 * LEARN_BYTES - 1));

	switch (*(u32 *)at) {
	case 0x20544547: /* GET */
	case 0x54534f50: /* POST */
	case 0x20545550: /* PUT */
	case 0x454c4544: /* DELE */
	case 0x44414548: /* HEAD */
	case 0x43544150: /* PATC */
	case 0x4954504f: /* OPTI */
		return 1;
	}
	return 0;
}

#endif
