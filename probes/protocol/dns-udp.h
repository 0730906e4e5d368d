/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * DNS over UDP: each datagram that looks like a query or a response goes to the ring. Part of requests.bpf.c.
 *
 * UDP sockets have no states, and no hook sees their end, so they are not in the table of connections. A small cache remembers sockets of
 * other protocols, to skip their datagrams.
 *
 * The destination of a datagram is that of a connected socket, else the address that the process passed. The kernel writes the source of a
 * datagram only after these hooks; user space takes it from the response.
 */
#ifndef CORAL_PROTOCOL_DNS_UDP_H
#define CORAL_PROTOCOL_DNS_UDP_H

#include "requests/user-buffer.h"

/* A header (12), the shortest name (1), type and class (4). */
#define MIN_DNS_BYTES 17
/* A header, a name of at most 255 bytes, and the start of the records. */
#define DATAGRAM_BYTES 320

struct datagram_socket {
	u16 local_port;
	u16 misses;
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_LRU_HASH);
	MAP_NUMBER(max_entries, 4096);
	MAP_TYPE(key, u64); /* address of struct sock */
	MAP_TYPE(value, struct datagram_socket);
} datagram_sockets SEC(".maps");

/* Datagrams lost because the ring was full. UDP sockets have no connection to count them in. */
u32 datagrams_missed = 0;

/* Progress of a thread through recvmmsg() or sendmmsg(): socket hooks fire once per message, without its index. */
struct message_cursor {
	u64 sk;
	/* Address of an array of struct mmsghdr. */
	u64 messages;
	/* Index of the next message, and the length that the one before it has once it is done. */
	u32 index;
	u32 length;
};

struct {
	MAP_NUMBER(type, BPF_MAP_TYPE_LRU_HASH);
	MAP_NUMBER(max_entries, 1024);
	MAP_TYPE(key, u64); /* process and thread */
	MAP_TYPE(value, struct message_cursor);
} message_cursors SEC(".maps");

/* struct sockaddr_in6; struct sockaddr_in has the same first 8 bytes. */
struct user_address {
	u16 family;
	u16 port;
	u32 flow_or_ipv4;
	u8 ipv6[16];
};

/* Address of the current message of recvmmsg() or sendmmsg(); 0: any other call. */
static always_inline u64 message_of_call(u64 sk, struct pt_regs *registers, u32 length)
{
	u64 messages = SYSCALL_BUFFER(registers), thread = bpf_get_current_pid_tgid();
	u32 number = SYSCALL_NUMBER(registers);
	struct message_cursor next = { .sk = sk, .messages = messages, .length = length };
	struct user_message before = {};
	struct message_cursor *cursor;

	if (number != NR_RECVMMSG && number != NR_SENDMMSG)
		return 0;
	cursor = bpf_map_lookup_elem(&message_cursors, &thread);
	if (cursor && cursor->sk == sk && cursor->messages == messages && cursor->index < SYSCALL_COUNT(registers) &&
	    !bpf_probe_read_user(&before, sizeof(before), (void *)(messages + (cursor->index - 1) * sizeof(before))) &&
	    before.sent == cursor->length)
		next.index = cursor->index;
	messages += next.index * sizeof(before);
	next.index++;
	bpf_map_update_elem(&message_cursors, &thread, &next, BPF_ANY);
	return messages;
}

/* A failed receive ends a recvmmsg(). */
static always_inline void forget_messages(void)
{
	u64 thread = bpf_get_current_pid_tgid();

	bpf_map_delete_elem(&message_cursors, &thread);
}

static always_inline u64 destination_of(struct pt_regs *registers, u64 message)
{
	u64 address = SYSCALL_ADDRESS(registers), name = 0;
	u32 number = SYSCALL_NUMBER(registers);

	/* Keeps the loads apart: clang would merge both branches into one load from registers or stack, which the verifier rejects. */
	asm volatile("" : "+r"(address));
	if (number == NR_SENDTO)
		return address;
	if (number != NR_SENDMSG && number != NR_SENDMMSG)
		return 0;
	/* The first field of struct msghdr is the address. */
	bpf_probe_read_user(&name, sizeof(name), (void *)(message ? message : SYSCALL_BUFFER(registers)));
	return name;
}

static always_inline void read_destination(struct payload_record *record, struct pt_regs *registers, u64 message)
{
	u64 pointer = destination_of(registers, message);
	struct user_address address = {};

	if (!pointer || bpf_probe_read_user(&address, 8, (void *)pointer))
		return;
	if (address.family == AF_INET) {
		*(u16 *)(record->remote + 10) = 0xffff;
		*(u32 *)(record->remote + 12) = address.flow_or_ipv4;
	} else if (address.family == AF_INET6 && !bpf_probe_read_user(&address, sizeof(address), (void *)pointer)) {
		__builtin_memcpy(record->remote, address.ipv6, 16);
	} else {
		return;
	}
	record->remote_port = __builtin_bswap16(address.port);
}

static always_inline void read_datagram_addresses(struct payload_record *record, struct sock *sk)
{
	u16 family = 0, port = 0;

	core_read(&family, &sk->__sk_common.skc_family);
	if (family == AF_INET) {
		u32 address = 0;

		*(u16 *)(record->local + 10) = 0xffff;
		core_read(&address, &sk->__sk_common.skc_rcv_saddr);
		*(u32 *)(record->local + 12) = address;
		core_read(&address, &sk->__sk_common.skc_daddr);
		if (address)
			*(u16 *)(record->remote + 10) = 0xffff;
		*(u32 *)(record->remote + 12) = address;
	} else {
		core_read((struct in6_addr *)record->local, &sk->__sk_common.skc_v6_rcv_saddr);
		core_read((struct in6_addr *)record->remote, &sk->__sk_common.skc_v6_daddr);
	}
	core_read(&port, &sk->__sk_common.skc_dport);
	record->remote_port = __builtin_bswap16(port);
}

static always_inline void note_datagram_socket(u64 key, struct datagram_socket *known, u16 local_port, u32 is_dns)
{
	struct datagram_socket fresh = { .local_port = local_port, .misses = 1 };

	if (known && known->local_port == local_port) {
		if (is_dns)
			known->misses = 0;
		else
			known->misses++;
	} else if (!is_dns) {
		bpf_map_update_elem(&datagram_sockets, &key, &fresh, BPF_ANY);
	}
}

/*
 * Sets where the bytes are, and how many. `message` is one of several (struct mmsghdr), whose length is set once it is done; 0: the call
 * has one message.
 */
static always_inline u32 find_datagram(struct payload *payload, struct pt_regs *registers, u64 message)
{
	struct user_message header = {};

	if (!message) {
		find_buffer(payload, registers);
	} else if (!bpf_probe_read_user(&header, sizeof(header), (void *)message)) {
		if (!payload->length)
			payload->length = header.sent;
		find_in_vectors(payload, header.vectors, header.vector_count);
	}
	return payload->buffer && payload->length >= MIN_DNS_BYTES;
}

/*
 * `key` is the address of `sk`, which the verifier may know as a typed pointer. `message`: see find_datagram(); of a finished call, then
 * `length` is 0.
 */
static always_inline int on_datagram(u64 key, struct sock *sk, struct pt_regs *registers, u32 length, u32 direction, u64 message)
{
	struct scratch *scratch = scratch_at(SCRATCH_SOCKET);
	struct controls *control = controls_now();
	struct payload_record *record;
	struct datagram_socket *known;
	struct payload payload = {};
	u16 local_port = 0;
	u32 total, kind;

	payload.tgid = current_process();
	if (is_out_of_scope(payload.tgid))
		return 0;
	if (!scratch || !control || (control->skipped_protocols | control->disabled_protocols) & 1U << PROTOCOL_DNS)
		return 0;
	known = bpf_map_lookup_elem(&datagram_sockets, &key);
	core_read(&local_port, &sk->__sk_common.skc_num);
	if (known && known->local_port == local_port && known->misses >= MAX_MISSES)
		return 0;
	if (!message)
		message = message_of_call(key, registers, length);
	payload.length = length;
	if (!find_datagram(&payload, registers, message))
		return 0;
	total = read_bytes(&payload, scratch, 0, 0, DATAGRAM_BYTES);
	kind = total >= MIN_DNS_BYTES ? dns_kind(scratch->bytes) : KIND_NONE;
	note_datagram_socket(key, known, local_port, kind);
	if (!kind || total > DATAGRAM_BYTES || bpf_map_lookup_elem(&own_processes, &payload.tgid))
		return 0;
	record = (void *)scratch->record;
	__builtin_memset(record, 0, sizeof(*record));
	record->kind = RECORD_PAYLOAD;
	record->protocol = PROTOCOL_DNS;
	record->role = (direction == RECEIVED) == (kind == KIND_REQUEST) ? ROLE_SERVER : ROLE_CLIENT;
	record->flags = PAYLOAD_UDP;
	record->direction = direction;
	record->bytes = total;
	/* Through memory: the verifier forbids arithmetic on the key while it knows it as a pointer. */
	*(volatile u64 *)&scratch->fingerprint = key;
	record->connection = *(volatile u64 *)&scratch->fingerprint >> 6;
	record->tgid = payload.tgid;
	record->at_ns = bpf_ktime_get_ns();
	record->length = payload.length;
	record->local_port = local_port;
	read_process_name(record->comm);
	read_datagram_addresses(record, sk);
	if (!record->remote_port && direction == SENT)
		read_destination(record, registers, message);
	record->missed_datagrams = datagrams_missed;
	if (emit(record, sizeof(*record) + total))
		__sync_fetch_and_add(&datagrams_missed, 1);
	return 0;
}

#endif
