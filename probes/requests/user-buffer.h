/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Finds the bytes of a system call on a socket by the registers of the process. Part of requests.bpf.c. */
#ifndef CORAL_REQUESTS_USER_BUFFER_H
#define CORAL_REQUESTS_USER_BUFFER_H

#include "requests/dispatch.h"

/* Scattered bytes: `buffer` is the first vector with bytes. */
static always_inline int find_in_vectors_inline(struct payload *payload, u64 vectors, u64 count)
{
	struct user_iovec first = {};

	if (count > 1024)
		count = 0;
	if (!count || bpf_probe_read_user(&first, sizeof(first), (void *)vectors))
		return 0;
	payload->buffer = first.base;
	payload->first_bytes = first.length;
	if (count > 1) {
		payload->vectors = vectors;
		payload->vector_count = count;
		/* An empty first vector is common; bytes are then read vector by vector. */
		if (!payload->buffer)
			payload->buffer = vectors;
	}
	return 0;
}

subprogram int find_in_vectors(struct payload *payload, u64 vectors, u64 count)
{
	return payload ? find_in_vectors_inline(payload, vectors, count) : 0;
}

subprogram int find_in_messages(struct payload *payload, u64 address, u64 count)
{
	struct user_message message = {};

	if (!payload)
		return 0;
		/* Finished messages have their length set; before that the field holds anything. */
#pragma clang loop unroll(disable)
	for (u32 index = 0; index < 4; index++) {
		if (index >= count || bpf_probe_read_user(&message, sizeof(message), (void *)(address + index * sizeof(message))))
			return 0;
		if (!message.sent || count == 1)
			break;
	}
	find_in_vectors(payload, message.vectors, message.vector_count);
	return 0;
}

/* Sets buffer, vectors and sizes. `buffer` stays 0 for system calls without bytes in memory, such as sendfile. */
static always_inline void find_buffer(struct payload *payload, struct pt_regs *registers)
{
	u64 argument = SYSCALL_BUFFER(registers);

	payload->buffer = 0;
	payload->vectors = 0;
	payload->vector_count = 0;
	payload->first_bytes = payload->length;
	switch (SYSCALL_NUMBER(registers)) {
	case NR_READ:
	case NR_WRITE:
	case NR_RECVFROM:
	case NR_SENDTO:
		payload->buffer = argument;
		break;
	case NR_READV:
	case NR_WRITEV:
		find_in_vectors_inline(payload, argument, SYSCALL_COUNT(registers));
		break;
	case NR_RECVMSG:
	case NR_SENDMSG: {
		struct user_message message = {};

		/* struct mmsghdr starts with struct msghdr. */
		if (!bpf_probe_read_user(&message, 56, (void *)argument))
			find_in_vectors(payload, message.vectors, message.vector_count);
		break;
	}
	case NR_RECVMMSG:
	case NR_SENDMMSG:
		find_in_messages(payload, argument, SYSCALL_COUNT(registers));
		break;
	}
}

#endif
