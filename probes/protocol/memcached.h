/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * memcached. Part of requests.bpf.c.
 *
 * One payload may hold hundreds of commands, each followed by a data block. Whole payloads go to the ring, in pieces that memcached-text.ts
 * and memcached-binary.ts decode. The walk through lines and headers only serves to leave out long blocks.
 */
#ifndef CORAL_PROTOCOL_MEMCACHED_H
#define CORAL_PROTOCOL_MEMCACHED_H

#include "protocol/classify.h"
#include "requests/payload.h"

/* A block is skipped if at least this much of it remains after the bytes that were read. */
#define MEMCACHED_SKIP 1024
/* At most 512 pieces per payload, 2 MiB without skipped blocks; the rest is cut. */
#define MEMCACHED_PIECES 512
/* Lines per piece, and bytes of a line per call. */
#define MEMCACHED_LINES 1024
#define MEMCACHED_LINE_BYTES 64
#define MEMCACHED_HEADER_BYTES 24
#define MEMCACHED_MAX_BLOCK (1U << 30)
#define MEMCACHED_MASK (2 * CHUNK_BYTES - 1)

/*
 * Progress through a piece; in memory so that the verifier does not track it. connection.extra holds the bytes of a block still to come,
 * per direction.
 */
struct memcached_walk {
	u32 at;
	/* Where the current line starts, and where the last one ended. */
	u32 line;
	u32 end;
	/* Which word of the line is the length of the block after it (0: no block), the current word, and the length. */
	u32 wanted;
	u32 word;
	u32 length;
	u32 is_in_line;
};

/* Which word of a line is the length of the data block after it; 0: no block follows. */
static always_inline u32 memcached_length_word(const u8 *line)
{
	switch (*(u32 *)line) {
	case 0x20746573: /* "set " */
	case 0x20646461: /* "add " */
	case 0x20736163: /* "cas " */
	case 0x6c706572: /* repl, ace */
	case 0x65707061: /* appe, nd */
	case 0x70657270: /* prep, end */
		return 4;
	case 0x554c4156: /* VALU, E */
		return 3;
	}
	if (line[0] == 'm' && line[1] == 's' && line[2] == ' ')
		return 2;
	return line[0] == 'V' && line[1] == 'A' && line[2] == ' ' ? 1 : 0;
}

/* A header of the binary protocol. 0: incomplete. */
static always_inline int memcached_header(const u8 *header, struct memcached_walk *walk, u32 total)
{
	u32 body = big32(header + 8);

	if (walk->at + MEMCACHED_HEADER_BYTES > total)
		return 0;
	walk->end = walk->at + MEMCACHED_HEADER_BYTES;
	walk->at = walk->end + (body <= MEMCACHED_MAX_BLOCK ? body : 0);
	return 1;
}

/* Advances by a line and the block after it. 0: the end of the piece. */
subprogram int memcached_line(struct scratch *scratch, struct memcached_walk *walk)
{
	if (!scratch || !walk || walk->at >= scratch->total)
		return 0;
	if (!walk->is_in_line) {
		const u8 *line = scratch->bytes + (walk->at & MEMCACHED_MASK);

		walk->line = walk->at;
		if (line[0] == 0x80 || line[0] == 0x81)
			return memcached_header(line, walk, scratch->total);
		walk->wanted = memcached_length_word(line);
		walk->word = 0;
		walk->length = 0;
		walk->is_in_line = 1;
	}
#pragma clang loop unroll(disable)
	for (u32 index = 0; index < MEMCACHED_LINE_BYTES; index++) {
		u32 at = *(volatile u32 *)&walk->at;
		u8 character;

		if (at >= scratch->total)
			return 0;
		character = scratch->bytes[at & MEMCACHED_MASK];
		walk->at = at + 1;
		if (character == '\n') {
			walk->is_in_line = 0;
			walk->end = at + 1;
			/* A CRLF follows the block. */
			if (walk->wanted && walk->word >= walk->wanted && walk->length <= MEMCACHED_MAX_BLOCK)
				walk->at = at + 1 + walk->length + 2;
			return 1;
		}
		if (character == ' ')
			walk->word++;
		else if (walk->wanted && walk->word == walk->wanted && (u8)(character - '0') < 10)
			walk->length = walk->length * 10 + character - '0';
	}
	return 1;
}

/* Decides how much of what was read is emitted, and how much is skipped after it. */
static always_inline void memcached_cut(struct payload *payload, struct piece *piece, const struct memcached_walk *walk, u32 size,
					u64 *left)
{
	u32 rest = payload->length - piece->offset - size;
	u32 beyond = walk->at - size;

	piece->bytes = size;
	piece->length = size;
	*left = 0;
	if (walk->is_in_line || walk->at < size) {
		/* Cuts before an incomplete line: the next piece starts with it. */
		if (walk->line && rest) {
			piece->bytes = walk->line;
			piece->length = walk->line;
		}
		return;
	}
	if (beyond >= MEMCACHED_SKIP) {
		u32 skipped = beyond < rest ? beyond : rest;

		piece->bytes = walk->end < size ? walk->end : size;
		piece->length = size + skipped;
		beyond -= skipped;
	}
	*left = beyond;
}

/* Prepares the piece at piece->offset. 0: there is none. */
subprogram int memcached_piece(struct payload *payload, struct connection *connection, struct scratch *scratch, struct piece *piece)
{
	struct memcached_walk walk = {};
	u32 rest, size;
	u64 *left;

	if (!payload || !connection || !scratch || !piece || piece->offset >= payload->length)
		return 0;
	rest = payload->length - piece->offset;
	left = &connection->extra[payload->direction & 1];
	if (*left >= MEMCACHED_SKIP) {
		piece->bytes = 0;
		piece->length = *left < rest ? *left : rest;
		*left -= piece->length;
		return 1;
	}
	size = payload->buffer ? read_bytes(payload, scratch, 0, piece->offset, CHUNK_BYTES) : 0;
	if (!size) {
		count_loss(LOSS_UNREADABLE);
		piece->bytes = 0;
		piece->length = rest;
		*left = 0;
		return 1;
	}
	scratch->total = size;
	walk.at = *left;
#pragma clang loop unroll(disable)
	for (u32 line = 0; line < MEMCACHED_LINES; line++) {
		if (!memcached_line(scratch, &walk))
			break;
	}
	memcached_cut(payload, piece, &walk, size, left);
	return 1;
}

/* Each piece is emitted like a separate, truncated payload. */
subprogram int memcached_data(struct payload *payload, struct connection *connection, struct scratch *scratch)
{
	struct piece piece = {};
	u32 offset = 0;

	if (!payload || !connection || !scratch)
		return 0;
	emit_prefix(payload, connection, scratch, 0);
#pragma clang loop unroll(disable)
	for (u32 count = 0; count < MEMCACHED_PIECES; count++) {
		piece.offset = offset;
		if (!memcached_piece(payload, connection, scratch, &piece))
			return 0;
		offset += piece.length;
		piece.offset = 0;
		/* Too long: the rest is cut. */
		if (count == MEMCACHED_PIECES - 1 && offset < payload->length)
			piece.length += payload->length - offset;
		emit_piece(payload, connection, scratch, &piece);
	}
	return 0;
}

#endif
