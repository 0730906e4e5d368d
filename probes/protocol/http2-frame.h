/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Frames of HTTP/2 (RFC 9113, section 4.1): their layout, and which side sent them. Part of requests.bpf.c. */
#ifndef CORAL_PROTOCOL_HTTP2_FRAME_H
#define CORAL_PROTOCOL_HTTP2_FRAME_H

#include "protocol/classify.h"
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
	/* Used in records only, see http2-frames.ts: more bytes of the previous frame, and the connection preface. */
	HTTP2_MORE = 0xf0,
	HTTP2_PREFACE = 0xf1,
};

#define HTTP2_END_STREAM 1
#define HTTP2_PADDED 8
#define HTTP2_HAS_PRIORITY 0x20

/* Longer frames are not seen in practice; the standard allows 16 MiB. */
#define HTTP2_MAX_FRAME (4 << 20)

static always_inline u32 http2_length(const u8 *header)
{
	return header[0] << 16 | header[1] << 8 | header[2];
}

static always_inline u32 http2_stream(const u8 *header)
{
	return (u32)header[5] << 24 | header[6] << 16 | header[7] << 8 | header[8];
}

/* True if these 9 bytes can be the header of a valid frame. */
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
	/* Extensions: ALTSVC, ORIGIN, PRIORITY_UPDATE, and GREASE frames, which test that receivers skip unknown types. */
	return length <= 16384;
}

/*
 * The side by the first fields of a header block, whose indexes in the static table distinguish requests from responses; KIND_NONE if unknown.
 * Skips fields from the dynamic table. Bytes after the block are a length or zeros, and match neither.
 */
__attribute__((noinline)) int http2_block_kind(struct scratch *scratch, u32 start)
{
	if (!scratch || start > 128)
		return KIND_NONE;
#pragma clang loop unroll(disable)
	for (u32 at = start; at < start + 8; at++) {
		const u8 *fields = scratch->bytes + at;
		u32 first = fields[0], index;

		/* A dynamic table size update of one or three bytes; 3fe11f is the common one. */
		if ((first & 0xe0) == 0x20) {
			if (first != 0x3f)
				continue;
			first = fields[3];
		}
		index = first & 0x80 ? first & 0x7f : first & 0x40 ? first & 0x3f : first & 0xf;
		if (index >= 1 && index <= 7)
			return KIND_REQUEST;
		if (index >= 8 && index <= 14)
			return KIND_RESPONSE;
		if (index < 62 || index == 127 || !(first & 0x80))
			return KIND_NONE;
	}
	return KIND_NONE;
}

/* Result of http2_kind() besides enum message_kind. */
#define HTTP2_SIDE_UNKNOWN 3

/*
 * The side that sent scratch->bytes, on a connection without a known protocol; HTTP2_SIDE_UNKNOWN: these are frames, but of either side.
 * The preface is recognised elsewhere. A connection that was open before Coral shows its side by HEADERS, alone or after short frames; a
 * server also by its SETTINGS.
 */
__attribute__((noinline)) int http2_kind(struct scratch *scratch)
{
	u32 at = 0, is_sure = 0, total;

	if (!scratch)
		return KIND_NONE;
	total = scratch->total;
#pragma clang loop unroll(disable)
	for (u32 frame = 0; frame < 3; frame++) {
		const u8 *header = scratch->bytes + at;
		u32 length, is_whole, fields = HTTP2_HEADER_BYTES;

		if (at > 64 || at + HTTP2_HEADER_BYTES > total || !http2_is_frame(header))
			return is_sure ? HTTP2_SIDE_UNKNOWN : KIND_NONE;
		length = http2_length(header);
		switch (header[3]) {
		case HTTP2_SETTINGS:
			/* Only a server starts with SETTINGS that are not an acknowledgement: a client starts with the preface. */
			if (!frame && !header[4] && length)
				return KIND_RESPONSE;
			break;
		case HTTP2_HEADERS:
			if (!(header[8] & 1) || at + HTTP2_HEADER_BYTES + 1 > total)
				return is_sure ? HTTP2_SIDE_UNKNOWN : KIND_NONE;
			if (header[4] & HTTP2_PADDED)
				fields += 1;
			if (header[4] & HTTP2_HAS_PRIORITY)
				fields += 5;
			return http2_block_kind(scratch, at + fields);
		case HTTP2_DATA:
			/*
			 * DATA of a stream that started earlier. Trusted only if the frame reaches the end of the payload, or follows
			 * another frame.
			 */
			is_whole = length + HTTP2_HEADER_BYTES >= total;
			return length && header[5] == 0 && header[6] < 16 && (is_whole || is_sure) ? HTTP2_SIDE_UNKNOWN : KIND_NONE;
		case HTTP2_PING:
		case HTTP2_WINDOW_UPDATE:
		case HTTP2_RST_STREAM:
			is_sure = 1;
			break;
		default:
			return KIND_NONE;
		}
		at += HTTP2_HEADER_BYTES + length;
	}
	return is_sure ? HTTP2_SIDE_UNKNOWN : KIND_NONE;
}

#endif
