/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The table of request kinds: number, latency, bytes. Part of requests.bpf.c.
 *
 * A kind is identified by a fingerprint; a LEARN record carries its name to user space once. kernel-table.ts reads the table in batches,
 * computes differences, and deletes idle kinds.
 */
#ifndef CORAL_REQUESTS_REQUEST_TABLE_H
#define CORAL_REQUESTS_REQUEST_TABLE_H

#include "core/histogram.h"
#include "requests/payload.h"

/* request_key.status, besides the statuses of protocols. */
#define STATUS_NONE 0
#define STATUS_NO_REPLY 1

/* Fingerprints without a LEARN record. */
#define FINGERPRINT_OTHER 0 /* the table of names is full */
#define FINGERPRINT_UNREAD 1 /* the statement was prepared before Coral started */

/* request_key.flags */
#define REQUEST_TLS 1

struct request_key {
	u64 fingerprint;
	u8 remote[16];
	u32 tgid;
	/* HTTP: status code. Postgres: SQLSTATE as a base-36 number. Redis: hash of the error's first word. 0: no error. */
	u32 status;
	u16 server_port;
	u8 role;
	u8 protocol;
	u8 method;
	u8 flags;
	u16 reserved;
};

/* The number of requests is the sum of `duration`. All fields are running totals that wrap. */
struct request_stats {
	u64 duration_sum_ns;
	u64 request_bytes;
	u64 response_bytes;
	u64 queue_sum_ns;
	u32 duration[FINE_BUCKETS];
	u32 queue[COARSE_BUCKETS];
	u32 first_byte[COARSE_BUCKETS];
	u32 reserved;
};

#define SLOT_FREE 0
#define SLOT_FILLING 1
#define SLOT_USED 2

/* User space frees a slot by writing zeros to all of it, from the start. */
struct request_slot {
	struct request_key key;
	struct request_stats stats;
	u32 state;
	u32 reserved[9];
};

/*
 * As in connection.h, a kind has a slot by its key, which is found without a helper call; the loader sets their number and the mask. It has
 * one slot per processor, for up to eight: waiting for a shared cache line takes longer than everything else. User space adds them up.
 */
#define CPU_SLOT_MASK 7
#define CPU_SLOT_STRIDE 0x9d
#define REQUEST_SLOTS 1024
const volatile u32 request_slot_mask = REQUEST_SLOTS - 1;

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, REQUEST_SLOTS);
	MAP_NUMBER(map_flags, BPF_F_MMAPABLE);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct request_slot);
} request_slots SEC(".maps");

/* Kinds whose slot was taken. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, 4096);
	MAP_NUMBER(map_flags, BPF_F_NO_PREALLOC);
	MAP_TYPE(key, struct request_key);
	MAP_TYPE(value, struct request_stats);
} requests SEC(".maps");

/* Requests without a name (FINGERPRINT_OTHER) when `requests` is full: by process, peer and status. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, 2048);
	MAP_NUMBER(map_flags, BPF_F_NO_PREALLOC);
	MAP_TYPE(key, struct request_key);
	MAP_TYPE(value, struct request_stats);
} other_requests SEC(".maps");

/* The initial value of new entries: too large for the stack. Never written. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct request_stats);
} empty_stats SEC(".maps");

/* Fingerprints whose LEARN record was emitted, mixed with process, port and peer. User space empties the map when it evicts names. */
struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_HASH);
	MAP_NUMBER(max_entries, 8192);
	MAP_NUMBER(map_flags, BPF_F_NO_PREALLOC);
	MAP_TYPE(key, u64);
	MAP_TYPE(value, u64); /* the fingerprint alone */
} learned SEC(".maps");

static always_inline u8 generation_now(void)
{
	struct controls *control = controls_now();

	return control ? control->generation : 0;
}

#define HASH_SEED 0xcbf29ce484222325ULL
#define HASH_PRIME 0x100000001b3ULL
#define MIX_PRIME 0x9e3779b97f4a7c15ULL

static always_inline u64 mix(u64 hash, u64 value)
{
	hash = (hash ^ value) * MIX_PRIME;
	return hash ^ (hash >> 29);
}

/* The slot of this kind, claimed if it was free; null if another kind has it. */
static always_inline struct request_stats *find_slot(const struct request_key *key)
{
	const u64 *words = (void *)key;
	u64 hash = ((words[0] ^ words[1] ^ words[3]) * MIX_PRIME ^ words[2] ^ words[4]) * MIX_PRIME;
	u32 index = ((u32)(hash >> 40) ^ (bpf_get_smp_processor_id() & CPU_SLOT_MASK) * CPU_SLOT_STRIDE) & request_slot_mask;
	struct request_slot *slot = bpf_map_lookup_elem(&request_slots, &index);
	const u64 *own;

	if (!slot)
		return 0;
	own = (void *)&slot->key;
	/* A matching key is enough in any state: the state is in another cache line. */
	if (!((own[0] ^ words[0]) | (own[1] ^ words[1]) | (own[2] ^ words[2]) | (own[3] ^ words[3]) | (own[4] ^ words[4])))
		return &slot->stats;
	if (slot->state != SLOT_FREE || __sync_val_compare_and_swap(&slot->state, SLOT_FREE, SLOT_FILLING) != SLOT_FREE)
		return 0;
	slot->key = *key;
	__sync_lock_test_and_set(&slot->state, SLOT_USED);
	return &slot->stats;
}

static always_inline struct request_stats *find_kind(struct request_key *key)
{
	struct request_stats *stats = find_slot(key);
	u32 zero = 0;
	void *empty;

	if (stats)
		return stats;
	stats = bpf_map_lookup_elem(&requests, key);
	if (stats)
		return stats;
	empty = bpf_map_lookup_elem(&empty_stats, &zero);
	if (!empty)
		return 0;
	bpf_map_update_elem(&requests, key, empty, BPF_NOEXIST);
	stats = bpf_map_lookup_elem(&requests, key);
	if (stats)
		return stats;
	count_loss(LOSS_ROUTES_FULL);
	key->fingerprint = FINGERPRINT_OTHER;
	key->method = 0;
	stats = bpf_map_lookup_elem(&other_requests, key);
	if (stats)
		return stats;
	bpf_map_update_elem(&other_requests, key, empty, BPF_NOEXIST);
	return bpf_map_lookup_elem(&other_requests, key);
}

static always_inline void response_is_sent(struct connection *connection, u64 at_ns)
{
	if (connection->first_byte_ns == UNSENT)
		connection->first_byte_ns = at_ns;
	connection->end_ns = at_ns;
}

/* Counts the open request of a connection. The caller owns it: see take_request(). */
static always_inline int count_request_inline(struct connection *connection)
{
	struct request_key key;
	struct request_stats *stats;
	u64 duration;
	u32 bucket;

	/* The request ends before its send was seen. */
	if (unlikely(connection->end_ns == UNSENT))
		response_is_sent(connection, bpf_ktime_get_ns());
	duration = connection->end_ns - connection->start_ns;

	key.fingerprint = connection->fingerprint;
	__builtin_memcpy(key.remote, connection->remote, 16);
	key.tgid = connection->tgid;
	key.status = connection->status;
	key.server_port = server_port(connection);
	key.role = connection->role;
	key.protocol = connection->protocol;
	key.method = connection->method;
	key.flags = connection->flags & CONNECTION_TLS ? REQUEST_TLS : 0;
	key.reserved = 0;
	stats = find_kind(&key);
	if (!stats) {
		count_loss(LOSS_UNDECODED);
		return 0;
	}
	/* Clocks may differ between processors: avoid a negative duration. */
	if ((s64)duration <= 0)
		duration = 1;
	bucket = latency_bucket(duration, FINE_PARTS_LOG2, FINE_BUCKETS);
	if (bucket < FINE_BUCKETS)
		__sync_fetch_and_add(&stats->duration[bucket], 1);
	__sync_fetch_and_add(&stats->duration_sum_ns, duration);
	__sync_fetch_and_add(&stats->request_bytes, connection->request_bytes);
	if (connection->response_bytes)
		__sync_fetch_and_add(&stats->response_bytes, connection->response_bytes);
	if (connection->first_byte_ns) {
		/* Most responses are one payload. Coarse buckets are half as many: halve the number of the fine one. */
		if (connection->first_byte_ns == connection->end_ns)
			bucket = (bucket + 1) >> (FINE_PARTS_LOG2 - COARSE_PARTS_LOG2);
		else
			bucket = latency_bucket(connection->first_byte_ns - connection->start_ns, COARSE_PARTS_LOG2, COARSE_BUCKETS);
		if (bucket < COARSE_BUCKETS)
			__sync_fetch_and_add(&stats->first_byte[bucket], 1);
	}
	if (connection->queue_ns != ~0ULL) {
		bucket = latency_bucket(connection->queue_ns, COARSE_PARTS_LOG2, COARSE_BUCKETS);
		if (bucket < COARSE_BUCKETS)
			__sync_fetch_and_add(&stats->queue[bucket], 1);
		__sync_fetch_and_add(&stats->queue_sum_ns, connection->queue_ns);
	}
	return 0;
}

subprogram int count_request(struct connection *connection)
{
	return connection ? count_request_inline(connection) : 0;
}

/* Sets the connection idle and returns its previous state. An open request is handed to exactly one caller. */
static always_inline u32 take_request(struct connection *connection)
{
	return __sync_lock_test_and_set(&connection->state, STATE_IDLE);
}

/* Counts the open request if its response has started: it is complete once the next request starts. */
static always_inline void finish_response(struct connection *connection)
{
	if (connection->state == STATE_RESPONDING && take_request(connection) == STATE_RESPONDING)
		count_request(connection);
}

/* Opens a request; none is open. `bytes` include those of a prefix. */
static always_inline void open_request(struct payload *payload, struct connection *connection, u64 fingerprint, u32 method, u32 bytes)
{
	u64 start = payload->start_ns;

	/* A request that came in pieces has its start time already. */
	if (!connection->prefix_bytes) {
		connection->queue_ns = ~0ULL;
		if (!start || start > payload->at_ns)
			start = payload->at_ns;
		else if (connection->role == ROLE_SERVER)
			connection->queue_ns = payload->at_ns - start;
		connection->start_ns = start;
	}
	/* Written only on change: other processors read this cache line. */
	if (connection->prefix_bytes)
		connection->prefix_bytes = 0;
	if (connection->response_prefix_bytes)
		connection->response_prefix_bytes = 0;
	if (connection->method != method)
		connection->method = method;
	if (connection->tgid != payload->tgid)
		connection->tgid = payload->tgid;
	connection->fingerprint = fingerprint;
	connection->request_bytes = bytes;
	connection->response_bytes = 0;
	connection->status = STATUS_NONE;
	connection->first_byte_ns = 0;
	connection->end_ns = 0;
	connection->request_left = 0;
	connection->state = STATE_PENDING;
}

/* Counts the request before, if it got a response, and opens the next. */
static always_inline void begin_request(struct payload *payload, struct connection *connection, u64 fingerprint, u32 method, u32 bytes)
{
	finish_response(connection);
	open_request(payload, connection, fingerprint, method, bytes);
}

/* Keeps the incomplete start of a request until the rest arrives. The request starts now. */
static always_inline void begin_prefix(struct payload *payload, struct connection *connection, const struct scratch *scratch)
{
	if (!connection->prefix_bytes) {
		u64 start = payload->start_ns;

		finish_response(connection);
		connection->queue_ns = ~0ULL;
		if (!start || start > payload->at_ns)
			start = payload->at_ns;
		else if (connection->side == SIDE_ACCEPTED || connection->role == ROLE_SERVER)
			connection->queue_ns = payload->at_ns - start;
		connection->start_ns = start;
	}
	keep_prefix(payload, connection, scratch);
}

/* Adds bytes to a response; the last bytes so far end it. */
static always_inline void extend_response(struct payload *payload, struct connection *connection)
{
	connection->response_bytes += payload->length;
	connection->end_ns = payload->at_ns;
}

/* The response starts, with this status. */
static always_inline void begin_response(struct payload *payload, struct connection *connection, u32 status)
{
	connection->status = status;
	if (!connection->first_byte_ns)
		connection->first_byte_ns = payload->at_ns;
	connection->state = STATE_RESPONDING;
}

/*
 * Makes sure that user space knows the name of a fingerprint: emits a LEARN record with the first `limit` bytes of the payload, once.
 * Returns the fingerprint, or FINGERPRINT_OTHER if the table of names is full.
 */
subprogram u64 learn(struct payload *payload, struct connection *connection, struct scratch *scratch, u32 limit)
{
	struct learn_record *record;
	u64 fingerprint, key;
	long failure;
	u32 bytes;

	if (!payload || !connection || !scratch)
		return 0;
	record = (void *)(scratch->record + sizeof(struct payload_record) - sizeof(struct learn_record));
	fingerprint = scratch->fingerprint;
	key = mix(mix(fingerprint, payload->tgid), server_port(connection) | connection->role << 16);

	/* A client's servers may be different services. */
	if (connection->role == ROLE_CLIENT)
		key = mix(key, *(u64 *)connection->remote ^ *(u64 *)(connection->remote + 8));
	if (bpf_map_lookup_elem(&learned, &key))
		return fingerprint;
	bytes = load_head(payload, connection, scratch, limit);
	if (!bytes || bytes > CHUNK_BYTES)
		return fingerprint;
	__builtin_memset(record, 0, sizeof(*record));
	record->kind = RECORD_LEARN;
	record->protocol = connection->protocol;
	record->role = connection->role;
	record->flags = payload->flags;
	record->bytes = bytes;
	record->server_port = server_port(connection);
	record->tgid = payload->tgid;
	record->fingerprint = fingerprint;
	__builtin_memcpy(record->remote, connection->remote, 16);
	read_process_name(record->comm);
	failure = bpf_map_update_elem(&learned, &key, &fingerprint, BPF_NOEXIST);
	/* Another thread of the process learned the same fingerprint at the same time, and emits it. */
	if (failure == -EEXIST)
		return fingerprint;
	if (failure) {
		count_loss(LOSS_ROUTES_FULL);
		return FINGERPRINT_OTHER;
	}
	if (emit(record, sizeof(*record) + bytes)) {
		bpf_map_delete_elem(&learned, &key);
		/* Makes the next request emit the record, even if it repeats this one. */
		connection->head_generation--;
	}
	return fingerprint;
}

/* learn(), without the lookup if the connection learned the same fingerprint last. For protocols other than HTTP, which keep no head. */
static always_inline u64 learn_if_changed(struct payload *payload, struct connection *connection, struct scratch *scratch, u32 limit)
{
	u64 fingerprint = scratch->fingerprint;
	u8 generation = generation_now();

	if (connection->head_fingerprint == fingerprint && connection->head_generation == generation && connection->tgid == payload->tgid)
		return fingerprint;
	connection->head_generation = generation;
	fingerprint = learn(payload, connection, scratch, limit);
	connection->head_fingerprint = fingerprint;
	return fingerprint;
}

#endif
