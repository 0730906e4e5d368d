/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * memcached: hundreds of commands may come in one payload, each with a block of data behind it. Payloads go to the ring as a whole, in pieces that
 * src/traffic/protocols/memcached-text.ts and memcached-binary.ts read; lines and headers are walked through only to leave out long blocks.
 */
#ifndef CORAL_PROTOCOL_MEMCACHED_H
#define CORAL_PROTOCOL_MEMCACHED_H

#include "protocol/classify.h"
#include "requests/payload.h"

/* Blocks of which at least so much is left behind what was read are skipped. */
#define MEMCACHED_SKIP 1024
/* Most of one payload is 512 pieces, 2 MiB without what was skipped; what is behind that is cut. */
#define MEMCACHED_PIECES 512
/* Lines of a piece, and bytes of a line that are looked at in one call. */
#define MEMCACHED_LINES 1024
#define MEMCACHED_LINE_BYTES 64
#define MEMCACHED_HEADER_BYTES 24
#define MEMCACHED_MAX_BLOCK (1U << 30)
#define MEMCACHED_MASK (2 * CHUNK_BYTES - 1)

/* Where the walk through a piece stands; in memory, so that the verifier forgets it. connection.extra: bytes of a block to come, received and sent. */
struct memcached_walk {
	u32 at;
	/* Where the line under way begins, and where the last one ended. */
	u32 line;
	u32 end;
	/* Which word of the line is the length of the block behind it (0: there is none), which one is being read, and the length. */
	u32 wanted;
	u32 word;
	u32 length;
	u32 is_in_line;
};

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

/* A header of the binary protocol. 0 when it is not whole. */
static always_inline int memcached_header(const u8 *header, struct memcached_walk *walk, u32 total)
{
	u32 body = big32(header + 8);

	if (walk->at + MEMCACHED_HEADER_BYTES > total)
		return 0;
	walk->end = walk->at + MEMCACHED_HEADER_BYTES;
	walk->at = walk->end + (body <= MEMCACHED_MAX_BLOCK ? body : 0);
	return 1;
}

/* Goes on by a line and the block behind it; 0 when the piece is over. */
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
			/* The block ends its own line. */
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

/* Of what was read, how much is told, and how much is left out behind it. */
static always_inline void memcached_cut(struct payload *payload, struct piece *piece, const struct memcached_walk *walk, u32 size,
					u64 *left)
{
	u32 rest = payload->length - piece->offset - size;
	u32 beyond = walk->at - size;

	piece->bytes = size;
	piece->length = size;
	*left = 0;
	if (walk->is_in_line || walk->at < size) {
		/* The next piece begins with the line that this one would end in. */
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

/* Tells the piece at piece->offset; 0 when it was the last. */
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

/* Each piece is told as if it were a payload of its own, of which the end was cut. */
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
		/* What is too long is cut. */
		if (count == MEMCACHED_PIECES - 1 && offset < payload->length)
			piece.length += payload->length - offset;
		emit_piece(payload, connection, scratch, &piece);
	}
	return 0;
}

#endif
