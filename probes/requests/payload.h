/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* One read or write (struct payload), how its bytes are read, and how records are filled and emitted. Part of requests.bpf.c. */
#ifndef CORAL_REQUESTS_PAYLOAD_H
#define CORAL_REQUESTS_PAYLOAD_H

#include "requests/ring.h"

/* One read or write of a process on a connection. `buffer` is 0 if there are no bytes to read (sendfile, splice, io_uring). */
struct payload {
	u64 sk;
	u64 buffer;
	/* Address of an array of struct user_iovec if the bytes are scattered, else 0. `buffer` then is that of the first vector. */
	u64 vectors;
	u64 at_ns;
	/* When the bytes arrived, or their send started; 0: unknown. */
	u64 start_ns;
	u32 vector_count;
	u32 first_bytes; /* in `buffer` */
	u32 length;
	u32 tgid;
	u8 direction;
	u8 flags;
	/* `buffer` is a kernel address: see sent-bytes.h. */
	u8 is_in_kernel;
	u8 reserved[5];
};

/* Read first of every payload; more only if needed. */
#define HEAD_BYTES 128
/* Searched for a second request, and the most that a LEARN record holds. */
#define LEARN_BYTES 1024
#define CHUNK_BYTES 4096
/* Most records per payload, of CHUNK_BYTES each. */
#define MAX_CHUNKS 8
/* Vectors of a payload that are read. */
#define MAX_VECTORS 64

/* State of a parser for a path, a SQL text or a word; see http1-head.h. */
struct path_parser {
	u64 segment;
	u64 previous;
	u32 kinds;
	u32 digits;
	u32 length;
	/* SQL: the last character that is part of no word, and a sign that may belong to a number. */
	u16 last;
	u16 sign;
};

/* Progress through scattered bytes: how many are still to be skipped, and how many were read. */
struct gathering {
	u64 offset;
	u32 filled;
	u32 reserved;
};

/* Working memory of one hook. `record` is right before `bytes`, so that a record is emitted without copying. */
struct scratch {
	/* 1 while a uprobe uses it. */
	u32 busy;
	/* Bytes read last: how many, and the positions of the parser. Kept in memory so that the verifier does not track their values. */
	u32 total;
	u32 at;
	u32 end;
	u64 fingerprint;
	u32 method;
	u32 number;
	/* Redis: where the length of the verb starts, and where the verb ends. */
	u32 verb_at;
	u32 verb_end;
	struct path_parser path;
	struct gathering gathering;
	u8 record[sizeof(struct payload_record)];
	/* Room for a kept prefix and a chunk, plus what the verifier cannot rule out. */
	u8 bytes[2 * CHUNK_BYTES + 128];
};

/* Per processor: one for hooks on sockets and system calls, three for uprobes, which can preempt each other. */
#define SCRATCH_SOCKET 0
#define SCRATCH_FIRST_UPROBE 1
#define SCRATCHES 4

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	MAP_NUMBER(max_entries, SCRATCHES);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct scratch);
} scratches SEC(".maps");

static always_inline struct scratch *scratch_at(u32 index)
{
	return bpf_map_lookup_elem(&scratches, &index);
}

/* Copies scattered bytes from `offset` on to scratch->bytes + kept. */
subprogram u32 gather_bytes(struct payload *payload, struct scratch *scratch, u32 kept, u32 offset, u32 wanted)
{
	volatile struct gathering *gathering;
	u32 filled;

	if (!payload || !scratch || kept > HEAD_KEPT)
		return 0;
	gathering = &scratch->gathering;
	gathering->offset = offset;
	gathering->filled = 0;
#pragma clang loop unroll(disable)
	for (u32 index = 0; index < MAX_VECTORS; index++) {
		struct user_iovec vector = {};
		u64 before = gathering->offset, size;

		filled = gathering->filled;
		if (index >= payload->vector_count || filled >= wanted || filled > CHUNK_BYTES)
			break;
		if (bpf_probe_read_user(&vector, sizeof(vector), (void *)(payload->vectors + index * sizeof(vector))))
			break;
		if (before >= vector.length) {
			gathering->offset = before - vector.length;
			continue;
		}
		size = vector.length - before;
		if (size > wanted - filled)
			size = wanted - filled;
		if (size > CHUNK_BYTES)
			size = CHUNK_BYTES;
		if (bpf_probe_read_user(scratch->bytes + kept + filled, size, (void *)(vector.base + before)))
			break;
		gathering->filled = filled + size;
		gathering->offset = 0;
	}
	filled = gathering->filled;
	/* A payload in more vectors than are read must not look like a short one. */
	return filled < wanted && filled < HEAD_KEPT ? 0 : filled;
}

/* Reads `size` bytes at an address in the payload's buffer. Not 0: they cannot be read. */
static always_inline long read_buffer(const struct payload *payload, void *target, u32 size, u64 address)
{
	return payload->is_in_kernel ? bpf_probe_read_kernel(target, size, (void *)address)
				     : bpf_probe_read_user(target, size, (void *)address);
}

/*
 * Copies up to `wanted` (at most CHUNK_BYTES) bytes of the payload, from `offset` on, to scratch->bytes + kept (at most HEAD_KEPT). Returns
 * their number, 0 if they cannot be read.
 */
static always_inline u32 read_bytes(struct payload *payload, struct scratch *scratch, u32 kept, u32 offset, u32 wanted)
{
	u32 size;

	if (offset >= payload->length)
		return 0;
	size = payload->length - offset;
	if (size > wanted)
		size = wanted;
	if (size > CHUNK_BYTES)
		size = CHUNK_BYTES;
	if (payload->vectors && offset + size > payload->first_bytes)
		return gather_bytes(payload, scratch, kept, offset, size);
	if (read_buffer(payload, scratch->bytes + kept, size, payload->buffer + offset))
		return 0;
	return size;
}

/*
 * Loads the first bytes of a payload into scratch->bytes, after the prefix that was kept of the one before, and appends zeros. Returns
 * their number (scratch->total), 0 if they cannot be read.
 */
subprogram u32 load_head(struct payload *payload, struct connection *connection, struct scratch *scratch, u32 wanted)
{
	u32 kept, total;

	if (!payload || !connection || !scratch)
		return 0;
	kept = connection->prefix_bytes;
	if (kept >= HEAD_KEPT || connection->prefix_direction != payload->direction)
		kept = 0;
	if (kept)
		__builtin_memcpy(scratch->bytes, connection->head, HEAD_KEPT);
	else if (payload->length < HEAD_KEPT)
		__builtin_memset(scratch->bytes, 0, HEAD_KEPT);
	total = read_bytes(payload, scratch, kept, 0, wanted);
	if (total)
		total += kept;
	/* No effect on the value: gives the verifier a bound. */
	total &= 2 * CHUNK_BYTES - 1;
	*(u64 *)(scratch->bytes + total) = 0;
	scratch->total = total;
	return total;
}

static always_inline void keep_prefix(struct payload *payload, struct connection *connection, const struct scratch *scratch)
{
	__builtin_memcpy(connection->head, scratch->bytes, HEAD_KEPT);
	connection->prefix_bytes = scratch->total;
	connection->prefix_direction = payload->direction;
	connection->flags &= ~CONNECTION_REPEATABLE;
}

static always_inline void fill_record(struct payload_record *record, const struct connection *connection)
{
	__builtin_memset(record, 0, sizeof(*record));
	record->protocol = connection->protocol;
	record->role = connection->role;
	record->connection = connection->id;
	record->tgid = connection->tgid;
	record->local_port = connection->local_port;
	record->remote_port = connection->remote_port;
	__builtin_memcpy(record->local, connection->local, 16);
	__builtin_memcpy(record->remote, connection->remote, 16);
}

/* Fills the header of a record that carries bytes of a payload. */
static always_inline void fill_payload_record(struct payload_record *record, const struct payload *payload,
					      const struct connection *connection, u32 flags)
{
	fill_record(record, connection);
	record->kind = RECORD_PAYLOAD;
	record->flags = flags | payload->flags;
	record->direction = payload->direction;
	record->tgid = payload->tgid;
	record->at_ns = payload->at_ns;
	record->start_ns = payload->start_ns;
}

/*
 * Fills the header of a synthetic record: when a connection goes over to the ring while a request is open, the decoder gets that request as
 * a record rebuilt from the kept state. The caller writes its bytes in the wire format.
 */
static always_inline void fill_synthetic_record(struct payload_record *record, const struct connection *connection)
{
	fill_record(record, connection);
	record->kind = RECORD_PAYLOAD;
	record->flags = PAYLOAD_SYNTHETIC | (connection->flags & CONNECTION_TLS ? PAYLOAD_TLS : 0);
	record->direction = connection->role == ROLE_SERVER ? RECEIVED : SENT;
	record->at_ns = connection->queue_ns != ~0ULL ? connection->start_ns + connection->queue_ns : connection->start_ns;
	record->start_ns = connection->start_ns;
}

/* Name of the current process, as user space reads it: that of its main thread. Other threads may have different names. */
static always_inline void read_process_name(u8 *comm)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_struct *leader = 0;

	core_read(&leader, &task->group_leader);
	if (leader)
		bpf_probe_read_kernel(comm, 16, __builtin_preserve_access_index(&leader->comm));
}

/*
 * Adds the process name to the first record of each connection, in case the process exits before user space looks. Only for records of the
 * current process.
 */
static always_inline void name_process(struct payload_record *record, struct connection *connection)
{
	if (connection->flags & CONNECTION_NAMED)
		return;
	connection->flags |= CONNECTION_NAMED;
	read_process_name(record->comm);
}

/* Emits a record for a decoder, with the directions that lost records before it. Not 0: it was dropped. */
static always_inline int emit_payload(struct payload_record *record, struct connection *connection, u32 bytes)
{
	u32 is_copy = record->flags & PAYLOAD_CAPTURE;
	u32 missed = connection->missed;

	if (unlikely(missed)) {
		u32 taken = record->kind == RECORD_CLOSED ? MISSED_RECORDS | MISSED_COPIES : is_copy ? MISSED_COPIES : MISSED_RECORDS;

		missed = __sync_fetch_and_and(&connection->missed, ~taken) & taken;
	}
	record->missed = missed;
	if (likely(!emit(record, bytes)))
		return 0;
	__sync_fetch_and_or(&connection->missed, missed | (is_copy ? 4U : 1U) << (record->direction & 1));
	return 1;
}

/* The part of a payload in one record: `bytes` of `length`, from `offset` on. */
struct piece {
	u32 offset;
	u32 bytes;
	u32 length;
	u32 flags; /* PAYLOAD_* */
};

/* Emits a piece, whose bytes are at scratch->bytes. */
subprogram int emit_piece(struct payload *payload, struct connection *connection, struct scratch *scratch, struct piece *piece)
{
	struct payload_record *record;

	if (!payload || !connection || !scratch || !piece || piece->bytes > CHUNK_BYTES)
		return 0;
	record = (void *)scratch->record;
	fill_payload_record(record, payload, connection, piece->flags);
	record->bytes = piece->bytes;
	record->length = piece->length;
	record->offset = piece->offset;
	name_process(record, connection);
	return emit_payload(record, connection, sizeof(*record) + (piece->bytes & (2 * CHUNK_BYTES - 1)));
}

/* Emits the bytes that were held back until the protocol was known. */
subprogram int emit_prefix(struct payload *payload, struct connection *connection, struct scratch *scratch, u32 flags)
{
	struct payload_record *record;
	u32 kept;

	if (!payload || !connection || !scratch)
		return 0;
	kept = connection->prefix_bytes;
	if (!kept)
		return 0;
	record = (void *)scratch->record;
	fill_payload_record(record, payload, connection, flags);
	record->direction = connection->prefix_direction;
	record->bytes = kept;
	record->length = kept;
	__builtin_memcpy(scratch->bytes, connection->head, HEAD_KEPT);
	if (kept <= HEAD_KEPT)
		emit_payload(record, connection, sizeof(*record) + kept);
	connection->prefix_bytes = 0;
	return 0;
}

/* Emits up to `limit` bytes of a payload, in records of at most CHUNK_BYTES. `flags`: PAYLOAD_*. */
subprogram int stream_payload(struct payload *payload, struct connection *connection, struct scratch *scratch, u32 limit, u32 flags)
{
	struct piece piece = { .flags = flags };

	if (!payload || !connection || !scratch)
		return 0;
	/* A capture has already copied what was held back. */
	if (!(flags & PAYLOAD_CAPTURE))
		emit_prefix(payload, connection, scratch, flags);
#pragma clang loop unroll(disable)
	for (u32 chunk = 0; chunk < MAX_CHUNKS; chunk++) {
		u32 offset = chunk * CHUNK_BYTES;
		u32 size;

		if (chunk && (offset >= payload->length || offset >= limit))
			break;
		size = payload->buffer ? read_bytes(payload, scratch, 0, offset, limit - offset) : 0;
		if (payload->buffer && !size)
			count_loss(LOSS_UNREADABLE);
		piece.offset = offset;
		piece.bytes = size;
		piece.length = payload->length;
		emit_piece(payload, connection, scratch, &piece);
		if (size < CHUNK_BYTES)
			break;
	}
	return 0;
}

#endif
