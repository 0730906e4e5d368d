/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What frames of HTTP/2 look like (RFC 9113, section 4.1), and who sent them. */
#ifndef CORAL_PROTOCOL_HTTP2_FRAME_H
#define CORAL_PROTOCOL_HTTP2_FRAME_H

#include "requests/payload.h"

#define HTTP2_HEADER_BYTES 9
#define HTTP2_PREFACE_BYTES 24
#define HTTP2_PREFACE_WORD 0x5448202a20495250ULL /* PRI * HT */

enum http2_frame {
	HTTP2_DATA = 0,
	HTTP2_HEADERS = 1,
	HTTP2_PRIORITY = 2,
	HTTP2_RST_STREAM = 3,
	HTTP2_SETTINGS = 4,
	HTTP2_PUSH_PROMISE = 5,
	HTTP2_PING = 6,
	HTTP2_GOAWAY = 7,
	HTTP2_WINDOW_UPDATE = 8,
	HTTP2_CONTINUATION = 9,
	/* Of records only, see src/traffic/protocols/http2-frames.ts: further bytes of the frame before, and the preface. */
	HTTP2_MORE = 0xf0,
	HTTP2_PREFACE = 0xf1,
};

#define HTTP2_END_STREAM 1
#define HTTP2_PADDED 8
#define HTTP2_HAS_PRIORITY 0x20

/* No receiver allows longer frames in practice; the standard would have 16 MiB. */
#define HTTP2_MAX_FRAME (4 << 20)

static always_inline u32 http2_length(const u8 *header)
{
	return header[0] << 16 | header[1] << 8 | header[2];
}

static always_inline u32 http2_stream(const u8 *header)
{
	return (u32)header[5] << 24 | header[6] << 16 | header[7] << 8 | header[8];
}

/* 0 when these 9 bytes cannot begin a frame that somebody sends. */
static always_inline int http2_is_frame(const u8 *header)
{
	u32 length = http2_length(header), stream = http2_stream(header), flags = header[4];

	if (length > HTTP2_MAX_FRAME || stream >> 31)
		return 0;
	switch (header[3]) {
	case HTTP2_DATA:
		return stream && !(flags & ~(HTTP2_END_STREAM | HTTP2_PADDED));
	case HTTP2_HEADERS:
		return stream && length && !(flags & ~0x2d);
	case HTTP2_PRIORITY:
		return stream && length == 5;
	case HTTP2_RST_STREAM:
		return stream && length == 4;
	case HTTP2_SETTINGS:
		return !stream && length % 6 == 0 && length <= 1536 && !(flags & ~1);
	case HTTP2_PUSH_PROMISE:
		return stream && length > 4 && !(flags & ~0xc);
	case HTTP2_PING:
		return !stream && length == 8 && !(flags & ~1);
	case HTTP2_GOAWAY:
		return !stream && length >= 8 && length < 16384;
	case HTTP2_WINDOW_UPDATE:
		return length == 4;
	case HTTP2_CONTINUATION:
		return stream && !(flags & ~4);
	}
	/* Extensions are to be skipped: ALTSVC, ORIGIN, PRIORITY_UPDATE, and those that only test whether receivers do skip. */
	return length <= 16384;
}

/*
 * By the first fields of a header block: 1 for a request, 2 for an answer, 0 when it does not show. Fields that were added to the table before
 * are passed over; what comes behind a block is a length, or nothing, and looks like neither. Not static, as its caller: the verifier then looks at
 * it once, and not for each way that leads here.
 */
__attribute__((noinline)) int http2_block_kind(struct scratch *scratch, u32 start)
{
	if (!scratch || start > 128)
		return 0;
#pragma clang loop unroll(disable)
	for (u32 at = start; at < start + 8; at++) {
		const u8 *fields = scratch->bytes + at;
		u32 first = fields[0], index;

		/* An update of the table's size, in one byte or in three: 3fe11f is the usual one. */
		if ((first & 0xe0) == 0x20) {
			if (first != 0x3f)
				continue;
			first = fields[3];
		}
		index = first & 0x80 ? first & 0x7f : first & 0x40 ? first & 0x3f : first & 0xf;
		if (index >= 1 && index <= 7)
			return 1;
		if (index >= 8 && index <= 14)
			return 2;
		if (index < 62 || index == 127 || !(first & 0x80))
			return 0;
	}
	return 0;
}

#define HTTP2_SIDE_UNKNOWN 3

/*
 * Who sent scratch->bytes, on a connection that is not known yet: 1 who asks, 2 who answers, HTTP2_LATER: frames, but they do not tell. The preface is
 * recognised elsewhere; a connection joined midway shows itself by HEADERS, alone or behind short frames, and a server by its SETTINGS.
 */
__attribute__((noinline)) int http2_kind(struct scratch *scratch)
{
	u32 at = 0, is_sure = 0, total;

	if (!scratch)
		return 0;
	total = scratch->total;
#pragma clang loop unroll(disable)
	for (u32 frame = 0; frame < 3; frame++) {
		const u8 *header = scratch->bytes + at;
		u32 length, is_whole, fields = HTTP2_HEADER_BYTES;

		if (at > 64 || at + HTTP2_HEADER_BYTES > total || !http2_is_frame(header))
			return is_sure ? HTTP2_SIDE_UNKNOWN : 0;
		length = http2_length(header);
		switch (header[3]) {
		case HTTP2_SETTINGS:
			/* Only a server begins with settings that are no acknowledgement: a client begins with the preface. */
			if (!frame && !header[4] && length)
				return 2;
			break;
		case HTTP2_HEADERS:
			if (!(header[8] & 1) || at + HTTP2_HEADER_BYTES + 1 > total)
				return is_sure ? HTTP2_SIDE_UNKNOWN : 0;
			if (header[4] & HTTP2_PADDED)
				fields += 1;
			if (header[4] & HTTP2_HAS_PRIORITY)
				fields += 5;
			return http2_block_kind(scratch, at + fields);
		case HTTP2_DATA:
			/* Bodies of a stream that began before: only when the frame ends with the payload, or is long. */
			is_whole = length + HTTP2_HEADER_BYTES >= total;
			return length && header[5] == 0 && header[6] < 16 && (is_whole || is_sure) ? HTTP2_SIDE_UNKNOWN : 0;
		case HTTP2_PING:
		case HTTP2_WINDOW_UPDATE:
		case HTTP2_RST_STREAM:
			is_sure = 1;
			break;
		default:
			return 0;
		}
		at += HTTP2_HEADER_BYTES + length;
	}
	return is_sure ? HTTP2_SIDE_UNKNOWN : 0;
}

#endif
