/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * HTTP/1.0 and 1.1. One request at a time is followed here; as soon as a connection has two open, all its payloads go to the ring and
 * src/traffic/protocols/http1*.ts counts them.
 */
#ifndef CORAL_HTTP1_H
#define CORAL_HTTP1_H

#include "request-table.h"

/* request_key.method; OTHER: the name is in the LEARN record only. */
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

/* Of a path that are looked at; what comes after names nothing. */
#define HTTP_PATH_BYTES 112
#define HTTP_METHOD_BYTES 16
/* "HTTP/1.1 200" */
#define HTTP_STATUS_BYTES 12

#define CHAR_DIGIT 1
#define CHAR_HEX 2
#define CHAR_LETTER 4
#define CHAR_DASH 8
#define CHAR_OTHER 16
#define CHAR_DOT 32
#define CHAR_END 64
#define CHAR_SLASH 128

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

/* What a segment of a path adds to the fingerprint: itself, or the same for all ids. Masks no segment that route-template.ts keeps. */
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
		/* The number of a version is part of the name. */
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
	} else if (digits >= 4 && !(kinds & ~(CHAR_DIGIT | CHAR_HEX | CHAR_LETTER)) && (length >= 20 || (digits >= 5 && digits * 2 >= length))) {
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
 * Fingerprint of the path that begins at scratch->at, into scratch->fingerprint; scratch->end is where it ends. The state of the loop is in memory,
 * or the verifier would follow every combination.
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

/* HTTP_* method at the begin of scratch->bytes; scratch->at becomes where the target begins. 0: none. */
static always_inline u32 http1_method(struct scratch *scratch)
{
	u64 word = *(u64 *)scratch->bytes;

	/* Little-endian words of the methods and the blank after them. */
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

/* Any other token of capital letters, such as PROPFIND: scratch->at becomes where the target begins, 0 when it is none, total when it is unfinished. */
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

/* Whether scratch->bytes begin with a request head; then scratch->fingerprint and scratch->method are of it. */
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
	if (first != '/' && first != '*' && first != 'h' && first != 'H' && found != HTTP_CONNECT)
		return HTTP_NO_HEAD;
	http1_path(scratch);
	end = scratch->end;
	if (end >= scratch->total)
		return scratch->total < HEAD_KEPT ? HTTP_PARTIAL : HTTP_WHOLE;
	end &= 255;
	if (scratch->bytes[end] == ' ' && scratch->total >= end + 7)
		return is_http1_version(scratch->bytes + end + 1) ? HTTP_WHOLE : HTTP_NO_HEAD;
	/* A query hides the version; of methods that HTTP does not know by itself it must be seen. */
	return found == HTTP_OTHER ? HTTP_NO_HEAD : HTTP_WHOLE;
}

/* Whether an empty line covers this place of scratch->bytes; then scratch->at is what follows it. */
subprogram u32 http1_empty_line(struct scratch *scratch, u32 place)
{
	u8 *at;
	u32 end = 0;

	if (!scratch)
		return 0;
	at = scratch->bytes + (place & (2 * LEARN_BYTES - 1));
	if (*(u32 *)(at - 3) == 0x0a0d0a0d)
		end = place + 1;
	else if (*(u32 *)(at - 2) == 0x0a0d0a0d)
		end = place + 2;
	else if (*(u32 *)(at - 1) == 0x0a0d0a0d)
		end = place + 3;
	else if (*(u32 *)at == 0x0a0d0a0d)
		end = place + 4;
	scratch->at = end;
	return end;
}

/* Whether bytes follow the first head in scratch->bytes, at scratch->at. An empty line covers one of every four places: only these are looked at. */
subprogram u32 http1_has_more(struct scratch *scratch)
{
	u32 total;

	if (!scratch)
		return 0;
	total = scratch->total;
	scratch->at = 0;
#pragma clang loop unroll(disable)
	for (u32 place = 12; place < LEARN_BYTES; place += 4) {
		if (place >= total)
			break;
		if (scratch->bytes[place] <= '\r' && http1_empty_line(scratch, place))
			break;
	}
	return *(volatile u32 *)&scratch->at + 4 < total && *(volatile u32 *)&scratch->at;
}

/* What follows at scratch->at begins like a request head. */
static always_inline int http1_looks_asked(const struct scratch *scratch)
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

/* The open request goes to the ring too, written again from what was kept of it, so that the decoder can match its answer. */
subprogram int http1_hand_over(struct connection *connection, struct scratch *scratch)
{
	struct payload_record *record;
	u32 end;

	if (!connection || !scratch || (connection->flags & CONNECTION_STREAMED))
		return 0;
	connection->flags |= CONNECTION_STREAMED;
	if (take_request(connection) != STATE_ASKED)
		return 0;
	record = (void *)scratch->before;
	fill_record(record, connection);
	record->kind = RECORD_PAYLOAD;
	record->flags = PAYLOAD_MADE | (connection->flags & CONNECTION_TLS ? PAYLOAD_TLS : 0);
	record->direction = connection->role == ROLE_SERVER ? RECEIVED : SENT;
	record->at_ns = connection->queue_ns != ~0ULL ? connection->start_ns + connection->queue_ns : connection->start_ns;
	record->start_ns = connection->start_ns;
	__builtin_memcpy(scratch->bytes, connection->head, HEAD_KEPT);
	/* The target ends at the second blank, or is cut. */
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
	*(u64 *)(scratch->bytes + end + 8) = 0x0a0d0a0d31ULL; /* "1", two ends of lines */
	record->bytes = end + 13;
	record->length = connection->request_bytes;
	if (bpf_ringbuf_output(&events, record, sizeof(*record) + end + 13, BPF_RB_NO_WAKEUP))
		count_loss(LOSS_RING_FULL);
	return 0;
}

/* Least of a head that is compared with the one before. */
#define HEAD_COMPARED 24

/* `words` begin with connection->head_bytes bytes of a payload; zeros follow. */
static always_inline int is_same_head(const u64 *words, const struct connection *connection)
{
	const u64 *head = (void *)connection->head;

	if ((words[0] ^ head[0]) | (words[1] ^ head[1]) | (words[2] ^ head[2]) | (words[3] ^ head[3]) | (words[4] ^ head[4]) | (words[5] ^ head[5]))
		return 0;
	return connection->head_bytes <= 48 || !((words[6] ^ head[6]) | (words[7] ^ head[7]));
}

/* Keeps the beginning of a payload: all that can be of it, or as much as tells its path. */
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

/* A head that is none of the last one's kind: names it, and looks whether it is the only one. */
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
	if (connection->state == STATE_ASKED || (http1_has_more(scratch) && http1_looks_asked(scratch))) {
		finish_answered(connection);
		http1_hand_over(connection, scratch);
		stream_payload(payload, connection, scratch, MAX_CHUNKS * CHUNK_BYTES, 0);
		return 0;
	}
	scratch->fingerprint = fingerprint;
	connection->head_generation = generation_now();
	fingerprint = learn(payload, connection, scratch, LEARN_BYTES);
	begin_request(payload, connection, fingerprint, method, bytes);
	/* With what ends the path. */
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

static always_inline void http1_asked(struct payload *payload, struct connection *connection, struct scratch *scratch)
{
	u32 state = connection->state;
	u32 parsed;

	if (!payload->buffer || !load_head(payload, connection, scratch, HEAD_BYTES)) {
		if (state == STATE_ASKED)
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
	if (parsed == HTTP_PARTIAL && state != STATE_ASKED) {
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

/* Of an answer that another one follows: 100, 103. */
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
	if (connection->state == STATE_ANSWERED) {
		/* Two answers to what was taken for one request. */
		u32 bytes = connection->response_bytes;

		connection->response_bytes = bytes > payload->length ? bytes - payload->length : bytes;
		finish_answered(connection);
		connection->request_bytes = 0;
		connection->response_bytes = payload->length;
		connection->queue_ns = ~0ULL;
		connection->first_byte_ns = 0;
	}
	begin_answer(payload, connection, status);
	if (status == 101 || (connection->method == HTTP_CONNECT && status < 300)) {
		finish_answered(connection);
		/* What follows is another protocol. Through a proxy's tunnel it may be any, else it is a socket of frames. */
		connection->protocol = status == 101 ? PROTOCOL_IGNORED : PROTOCOL_UNKNOWN;
		connection->role = ROLE_NONE;
		connection->misses = 0;
		connection->flags &= ~CONNECTION_REPEATABLE;
	}
}

/* Most of an answer that is looked through for what it changes to. */
#define HTTP_UPGRADE_BYTES 256

/* Whether an answer with status 101 changes to HTTP/2. */
subprogram int http1_is_h2c(struct payload *payload, struct scratch *scratch)
{
	if (!payload || !scratch)
		return 0;
	__builtin_memset(scratch->bytes, 0, HTTP_UPGRADE_BYTES + 8);
	if (!read_bytes(payload, scratch, 0, 0, HTTP_UPGRADE_BYTES))
		return 0;
#pragma clang loop unroll(disable)
	for (u32 index = 0; index < HTTP_UPGRADE_BYTES; index++) {
		if (*(u32 *)(scratch->bytes + index) == 0x0d633268) /* h2c and the end of the line */
			return 1;
	}
	return 0;
}

/* Most interim answers in one payload that are passed over. */
#define HTTP_INTERIM_ANSWERS 4

/*
 * While scratch->bytes begin with an interim answer, `kept` bytes of which came before this payload: puts what follows it there, up to 16 bytes. Their number; 0
 * when nothing does.
 */
subprogram u32 http1_after_interim(struct payload *payload, struct scratch *scratch, u32 kept)
{
	u32 offset = 0, total;

	if (!payload || !scratch || kept > 16)
		return 0;
#pragma clang loop unroll(disable)
	for (u32 index = 0; index < HTTP_INTERIM_ANSWERS; index++) {
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
		if (total < HTTP_STATUS_BYTES || !is_http1_version(scratch->bytes) || !http1_is_interim(http1_status_number(scratch->bytes)))
			return total;
	}
	return 0;
}

static always_inline void http1_answered(struct payload *payload, struct connection *connection, struct scratch *scratch)
{
	u32 kept, total;

	/* Late bytes of a request that a sweep has counted. */
	if (connection->state == STATE_IDLE)
		return;
	extend_answer(payload, connection);
	if (!payload->buffer)
		return;
	kept = connection->answer_bytes;
	if (kept >= HTTP_STATUS_BYTES)
		kept = 0;
	if (kept)
		__builtin_memcpy(scratch->bytes, connection->answer, 16);
	total = read_bytes(payload, scratch, kept, 0, 16);
	if (!total) {
		count_loss(LOSS_UNREADABLE);
		return;
	}
	total += kept;
	if (total >= HTTP_STATUS_BYTES && connection->state == STATE_ASKED && is_http1_version(scratch->bytes) &&
	    http1_is_interim(http1_status_number(scratch->bytes))) {
		connection->answer_bytes = 0;
		total = http1_after_interim(payload, scratch, kept);
		if (!total)
			return;
	}
	if (total >= HTTP_STATUS_BYTES) {
		connection->answer_bytes = 0;
		if (is_http1_version(scratch->bytes))
			http1_status(payload, connection, scratch->bytes);
		/* The preface tells the rest. */
		if (connection->protocol == PROTOCOL_IGNORED && http1_is_h2c(payload, scratch))
			connection->protocol = PROTOCOL_UNKNOWN;
	} else if (connection->state == STATE_ASKED && scratch->bytes[0] == 'H') {
		__builtin_memcpy(connection->answer, scratch->bytes, 16);
		connection->answer_bytes = total;
	}
}

/* What http1_look() saw; above them it is the status of an answer. */
#define HTTP_SEEN_NOTHING 0
#define HTTP_SEEN_SAME 1 /* the same request as the one before on this connection */

static always_inline int http1_is_followed(const struct connection *connection)
{
	return connection->protocol == PROTOCOL_HTTP && !(connection->flags & CONNECTION_STREAMED);
}

/* Reads the beginning of a payload of `length` bytes, `first_bytes` of which are at `buffer`, for what most payloads are. Changes nothing. */
static always_inline u32 http1_look(const struct connection *connection, u32 direction, u64 buffer, u32 first_bytes, u32 length)
{
	u64 words[HEAD_KEPT / 8] = {};
	const u8 *text = (const u8 *)words;
	u32 status;

	if (is_request(connection, direction)) {
		u32 size = connection->head_bytes;

		if (!(connection->flags & CONNECTION_REPEATABLE) || connection->state == STATE_ASKED || connection->prefix_bytes ||
		    length != connection->head_payload_bytes || first_bytes < size || length < size || connection->head_generation != generation_now())
			return HTTP_SEEN_NOTHING;
		if (size > HEAD_KEPT || bpf_probe_read_user(words, size, (void *)buffer) || !is_same_head(words, connection))
			return HTTP_SEEN_NOTHING;
		return HTTP_SEEN_SAME;
	}
	if (connection->state != STATE_ASKED || connection->answer_bytes || length < 16 || first_bytes < 16 || connection->method == HTTP_CONNECT)
		return HTTP_SEEN_NOTHING;
	if (bpf_probe_read_user(words, 16, (void *)buffer) || !is_http1_version(text))
		return HTTP_SEEN_NOTHING;
	status = http1_status_number(text);
	return status < 200 || status > 999 ? HTTP_SEEN_NOTHING : status;
}

/*
 * The way of most payloads, without a call on it, since returning is dear where processors are protected from speculation: the same request as
 * the one before on this connection, or the head of an answer. `seen` is what http1_look() saw before. 0: it is neither, and nothing has changed.
 */
static always_inline int http1_quick(struct payload *payload, struct connection *connection, u32 seen)
{
	struct controls *control = controls_now();

	if (!http1_is_followed(connection) || !payload->buffer || !control || control->capturing)
		return 0;
	if ((connection->flags & CONNECTION_TLS) && !(payload->flags & PAYLOAD_TLS))
		return 0;
	if (seen == HTTP_SEEN_NOTHING)
		seen = http1_look(connection, payload->direction, payload->buffer, payload->first_bytes, payload->length);
	if (seen == HTTP_SEEN_NOTHING)
		return 0;
	if (seen == HTTP_SEEN_SAME) {
		if (connection->state == STATE_ANSWERED && take_request(connection) == STATE_ANSWERED)
			count_request_here(connection);
		begin_request(payload, connection, connection->head_fingerprint, connection->head_method, payload->length);
		return 1;
	}
	extend_answer(payload, connection);
	begin_answer(payload, connection, seen);
	return 1;
}

subprogram int http1_data(struct payload *payload, struct connection *connection, struct scratch *scratch)
{
	if (!payload || !connection || !scratch)
		return 0;
	if (is_request(connection, payload->direction))
		http1_asked(payload, connection, scratch);
	else
		http1_answered(payload, connection, scratch);
	return 0;
}

#endif
