/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Programs that user space runs itself. Requests end lazily: by the next one, by the end of the connection, or by the sweep, which user
 * space runs before it reads the table. Part of requests.bpf.c.
 */
#ifndef CORAL_REQUESTS_SWEEP_H
#define CORAL_REQUESTS_SWEEP_H

#include "requests/dispatch.h"

struct sweep {
	/* Counts requests whose response has been idle since before this time. */
	u64 responded_before_ns;
	u32 finished;
	u32 connections;
};

/* Called for each slot; 0 and 1 are not sockets. */
static long sweep_connection(void *map, u64 *key, struct connection *connection, struct sweep *sweep)
{
	(void)map;
	(void)key;
	if (connection->sk <= 1)
		return 0;
	sweep->connections++;
	tls_note_opaque(connection);
	if (connection->state == STATE_PENDING && connection->is_closed && connection->end_ns &&
	    connection->end_ns < sweep->responded_before_ns) {
		struct connection copy = *connection;

		copy.status = STATUS_NO_REPLY;
		if (__sync_val_compare_and_swap(&connection->state, STATE_PENDING, STATE_IDLE) == STATE_PENDING) {
			count_request(&copy);
			sweep->finished++;
		}
		return 0;
	}
	if (connection->state == STATE_RESPONDING && connection->end_ns < sweep->responded_before_ns) {
		/* Copied before the request is taken: afterwards the connection may start its next request. */
		struct connection copy = *connection;

		if (__sync_val_compare_and_swap(&connection->state, STATE_RESPONDING, STATE_IDLE) == STATE_RESPONDING) {
			count_request(&copy);
			sweep->finished++;
		}
	}
	return 0;
}

SEC("syscall")
int sweep_requests(struct sweep *sweep)
{
	struct sweep copy = *sweep;

	bpf_for_each_map_elem(&connection_slots, sweep_connection, &copy, 0);
	if (has_overflowed)
		bpf_for_each_map_elem(&connections, sweep_connection, &copy, 0);
	*sweep = copy;
	return 0;
}

static long forget_connection(void *map, u32 *key, struct connection *connection, void *context)
{
	(void)map;
	(void)key;
	(void)context;
	if (connection->sk > 1)
		connection->sk = 0;
	return 0;
}

/* Run after hooks are attached, so that no stale state remains. User space empties `connections` itself. */
SEC("syscall")
int forget_connections(void *context)
{
	(void)context;
	bpf_for_each_map_elem(&connection_slots, forget_connection, 0, 0);
	return 0;
}

#endif
